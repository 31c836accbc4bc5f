// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/cuda_work.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.h"
#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/cuda_stream.h"

namespace ddpbench::comm {

namespace {

// A waiting host looks often at first, because most works are short.
constexpr int kEagerLooks = 1000;
constexpr auto kPause = std::chrono::microseconds(20);

void record(cudaEvent_t event, cudaStream_t stream, bool recording) {
  cuda::check(cudaEventRecordWithFlags(
                  event, stream, recording ? cudaEventRecordExternal : cudaEventRecordDefault),
              "cudaEventRecord");
}

}  // namespace

unsigned long long recording_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t result = cudaStreamGetCaptureInfo(stream, &status, &number);
#else
  const cudaError_t result = cudaStreamGetCaptureInfo_v2(stream, &status, &number);
#endif
  cuda::check(result, "cudaStreamGetCaptureInfo");
  return status == cudaStreamCaptureStatusNone ? 0 : number;
}

CudaWork::CudaWork(std::shared_ptr<WorkOwner> owner, const Operation& operation,
                   std::uint64_t number)
    : owner_(std::move(owner)),
      operation_(operation),
      number_(number),
      marks_(owner_->take_marks()) {}

CudaWork::~CudaWork() {
  if (!is_recorded()) owner_->give_back(marks_);
}

void CudaWork::begin(cudaStream_t stream) {
  if (const unsigned long long recording = recording_of(stream)) {
    const WorkMarks unused = std::exchange(marks_, owner_->recorded_marks(recording));
    recording_ = recording;
    owner_->give_back(unused);
  }
  record(marks_.begin, stream, is_recorded());
}

void CudaWork::arrived(cudaStream_t stream) {
  record(marks_.arrived, stream, is_recorded());
  has_arrived_ = true;
}

void CudaWork::end(cudaStream_t stream) {
  record(marks_.end, stream, is_recorded());
  // It follows the record above, which is a piece of the recording, too, and must not dangle.
  if (is_recorded()) cuda::check(cudaEventRecord(marks_.join, stream), "cudaEventRecord");
  state_.store(State::issued, std::memory_order_release);
}

void CudaWork::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  state_.store(State::failed, std::memory_order_release);
}

void CudaWork::ensure_issued() const {
  ensure(state_.load(std::memory_order_acquire) != State::open,
         "{}: a work of an open group cannot be awaited", owner_->prefix(&operation_));
}

void CudaWork::wait(Stream& stream) {
  ensure_issued();
  if (state_.load(std::memory_order_acquire) == State::failed) std::rethrow_exception(error_);
  const cudaStream_t native = cuda::native_stream(stream);
  const unsigned long long recording = recording_of(native);
  // Within its own recording a work is awaited by the recording's own kind of event. Otherwise a
  // stream waits for what was queued last, and another recording for what is queued last when it is
  // replayed.
  const bool inside = recording != 0 && recording == recording_;
  cuda::check(
      cudaStreamWaitEvent(native, inside ? marks_.join : marks_.end,
                          recording != 0 && !inside ? cudaEventWaitExternal : cudaEventWaitDefault),
      "cudaStreamWaitEvent");
}

bool CudaWork::reached(cudaEvent_t event) const {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) return false;
  if (status != cudaSuccess) {
    throw CommError(fmt::format("{}{}: {}", owner_->prefix(&operation_), cudaGetErrorName(status),
                                cudaGetErrorString(status)),
                    operation_name(&operation_));
  }
  return true;
}

bool CudaWork::test() {
  ensure_issued();
  if (is_recorded()) {
    owner_->throw_if_failed();
    return reached(marks_.end);
  }
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::done) return true;
  if (state == State::failed) std::rethrow_exception(error_);
  if (!reached(marks_.end)) return false;
  owner_->settle(*this);
  return true;
}

void CudaWork::synchronize(Deadline deadline) {
  for (int looks = 0; !test(); ++looks) {
    if (has_passed(deadline)) owner_->deadline_passed(*this);
    if (looks < kEagerLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

void CudaWork::synchronize() { synchronize(deadline_after(owner_->timeout_s())); }

WorkTimes CudaWork::times() const {
  ensure_issued();
  if (state_.load(std::memory_order_acquire) == State::failed) std::rethrow_exception(error_);
  if (is_recorded()) owner_->throw_if_failed();
  ensure(reached(marks_.end), "times of a work that is not done");
  cuda::CudaClock& clock = owner_->clock();
  WorkTimes times;
  times.start_s = clock.time_s(marks_.begin);
  times.arrived_s = has_arrived_ ? clock.time_s(marks_.arrived) : times.start_s;
  times.end_s = clock.time_s(marks_.end);
  // The two clocks agree to some microseconds, so the time is clamped to the work.
  const double told_s = arrived_s_.load(std::memory_order_acquire);
  times.arrived_told = has_arrived_ || told_s > 0;
  if (told_s > 0) times.arrived_s = std::min(std::max(told_s, times.start_s), times.end_s);
  return times;
}

std::uint32_t CudaWork::changes() const { return owner_->changes(); }

void CudaWork::await_change(std::uint32_t seen, Deadline deadline) {
  owner_->await_change(seen, deadline);
}

}  // namespace ddpbench::comm
