// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/work_monitor.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "kernels/runtime/cuda/cuda_calls.h"

namespace ddpbench::comm {

namespace {

// A waiting host looks often at first, because most works are short.
constexpr int kEagerLooks = 1000;
constexpr auto kPause = std::chrono::microseconds(20);
// How often the watchdog looks. Busy: works are in flight. Idle: only recordings could be, or the
// backend may fail; check() promises to know of that before the first work, too.
constexpr auto kBusyLook = std::chrono::microseconds(200);
constexpr auto kIdleLook = std::chrono::milliseconds(5);

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

CudaWork::CudaWork(std::shared_ptr<WorkMonitor> owner, const Operation& operation)
    : owner_(std::move(owner)), operation_(operation), marks_(owner_->take_marks()) {}

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

bool CudaWork::is_done() {
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

void CudaWork::synchronize(std::optional<Deadline> given) {
  const Deadline deadline = given ? *given : deadline_after(owner_->options_.timeout_s);
  for (int looks = 0; !is_done(); ++looks) {
    if (has_passed(deadline)) owner_->deadline_passed(*this);
    if (looks < kEagerLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

WorkTimes CudaWork::times() const {
  ensure_issued();
  if (state_.load(std::memory_order_acquire) == State::failed) std::rethrow_exception(error_);
  if (is_recorded()) owner_->throw_if_failed();
  ensure(reached(marks_.end), "times of a work that is not done");
  cuda::CudaClock& clock = *owner_->options_.clock;
  WorkTimes times;
  times.start_s = clock.time_s(marks_.begin);
  times.end_s = clock.time_s(marks_.end);
  // The two clocks agree to some microseconds, so the time is clamped to the work.
  const double told_s = arrived_s_.load(std::memory_order_acquire);
  times.arrived_told = told_s > 0;
  times.arrived_s = std::min(std::max(told_s, times.start_s), times.end_s);
  return times;
}

WorkMonitor::~WorkMonitor() {
  for (const auto* marks : {&free_marks_, &recorded_marks_}) {
    for (const WorkMarks& m : *marks) {
      for (const cudaEvent_t event : {m.begin, m.end, m.join}) {
        if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
      }
    }
  }
}

void WorkMonitor::start(MonitoredBackend& backend) {
  backend_ = &backend;
  thread_ = std::thread([this] { serve(); });
}

void WorkMonitor::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  static_cast<void>(retire());
  const std::lock_guard lock(mutex_);
  fail_locked(std::make_exception_ptr(
      CommError(prefix(nullptr) + "the communicator was destroyed meanwhile")));
}

WorkMarks WorkMonitor::take_marks() {
  {
    const std::lock_guard lock(events_mutex_);
    if (!free_marks_.empty()) {
      const WorkMarks marks = free_marks_.back();
      free_marks_.pop_back();
      return marks;
    }
  }
  const cuda::CurrentDevice current(options_.ordinal);
  WorkMarks marks;
  for (cudaEvent_t* const event : {&marks.begin, &marks.end}) {
    cuda::check(cudaEventCreate(event), "cudaEventCreate");
  }
  return marks;
}

void WorkMonitor::give_back(const WorkMarks& marks) noexcept {
  const std::lock_guard lock(events_mutex_);
  free_marks_.push_back(marks);
}

WorkMarks WorkMonitor::recorded_marks(unsigned long long recording) {
  if (recording != recording_) recorded_works_ = 0;
  recording_ = recording;
  const std::size_t place = recorded_works_++;
  if (place == recorded_marks_.size()) {
    WorkMarks marks = take_marks();
    const cuda::CurrentDevice current(options_.ordinal);
    cuda::check(cudaEventCreateWithFlags(&marks.join, cudaEventDisableTiming), "cudaEventCreate");
    recorded_marks_.push_back(marks);
  }
  return recorded_marks_[place];
}

void WorkMonitor::launching(const std::shared_ptr<CudaWork>& work) noexcept {
  const std::lock_guard lock(mutex_);
  launching_ = work;
  launching_since_ = Clock::now();
}

void WorkMonitor::watch(const std::shared_ptr<CudaWork>& work) {
  const std::lock_guard lock(mutex_);
  if (work->is_recorded()) {
    recorded_.push_back(work);
  } else if (failure_) {
    // It failed while this work was queued, and the watchdog no longer looks at works.
    work->fail(failure_);
  } else {
    works_.push_back(work);
  }
}

void WorkMonitor::throw_if_failed() {
  if (!failed()) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(failure_);
}

void WorkMonitor::fail_locked(std::exception_ptr error) noexcept {
  if (!failure_) failure_ = std::move(error);
  for (const auto& work : works_) {
    if (work->state_.load(std::memory_order_acquire) == CudaWork::State::issued)
      work->fail(failure_);
  }
  works_.clear();
  failed_.store(true, std::memory_order_release);
}

void WorkMonitor::fail(std::exception_ptr error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    fail_locked(std::move(error));
  }
  wake_.notify_all();
}

void WorkMonitor::abort(const std::string& reason) noexcept {
  fail(std::make_exception_ptr(
      CommError(fmt::format("{}aborted by rank {}: {}", prefix(nullptr), options_.rank, reason))));
}

void WorkMonitor::settle(CudaWork& work) {
  const std::lock_guard lock(mutex_);
  // An abort ends the device work early, but first fails the work.
  if (work.state_.load(std::memory_order_acquire) == CudaWork::State::failed) {
    std::rethrow_exception(work.error_);
  }
  work.state_.store(CudaWork::State::done, std::memory_order_release);
}

std::string WorkMonitor::timeout_text(const CudaWork& work) const {
  const Operation& operation = work.operation();
  return fmt::format("{}deadline passed while waiting for {}", prefix(&operation),
                     operation.is_message() ? fmt::format("rank {}", operation.root) : "its peers");
}

void WorkMonitor::deadline_passed(CudaWork& work) {
  const CommTimeout timeout(timeout_text(work), operation_name(&work.operation()));
  if (!work.operation().is_message()) fail(std::make_exception_ptr(timeout));
  throw CommTimeout(timeout);
}

void WorkMonitor::serve() {
  static_cast<void>(cudaSetDevice(options_.ordinal));
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool busy = !works_.empty() || launching_ != nullptr || failed();
    if (failed() && abandoned_) {
      wake_.wait(lock, [this] { return stopping_; });
    } else {
      wake_.wait_for(lock, busy ? kBusyLook : std::chrono::microseconds(kIdleLook));
    }
    if (stopping_) return;
    lock.unlock();
    look();
    lock.lock();
  }
}

void WorkMonitor::look() {
  try {
    if (!failed()) {
      const std::shared_ptr<CudaWork> oldest = retire();
      std::unique_lock lock(mutex_);
      const std::shared_ptr<CudaWork> launch = launching_;
      const Clock::time_point since = launching_since_;
      lock.unlock();
      if (const std::string reason = backend_->asynchronous_error(); !reason.empty()) {
        const CudaWork* const latest = launch ? launch.get() : oldest.get();
        const Operation* const operation = latest ? &latest->operation() : nullptr;
        throw CommError(prefix(operation) + reason, operation_name(operation));
      }
      if (oldest) look_at(*oldest);
      if (launch) look_at_launch(*launch, since);
      look_at_recorded();
    }
  } catch (const Error&) {
    fail(std::current_exception());
  }
  if (failed() && !abandoned_) {
    backend_->abandon();
    abandoned_ = true;
  }
}

std::shared_ptr<CudaWork> WorkMonitor::retire() {
  bool finished = false;
  std::shared_ptr<CudaWork> oldest;
  {
    const std::lock_guard lock(mutex_);
    while (!works_.empty()) {
      CudaWork& work = *works_.front();
      // An event that cannot be queried any more counts as not reached; the backend says why.
      if (cudaEventQuery(work.marks_.end) != cudaSuccess) break;
      work.state_.store(CudaWork::State::done, std::memory_order_release);
      works_.pop_front();
      finished = true;
    }
    if (!works_.empty()) oldest = works_.front();
  }
  if (finished && options_.progress) options_.progress();
  return oldest;
}

// The deadline counts from when the operation itself runs. Before that it waits for its own stream.
void WorkMonitor::look_at(CudaWork& work) {
  if (!work.runs_) {
    if (!work.reached(work.marks_.begin)) return;
    work.runs_ = true;
    work.runs_since_ = Clock::now();
  }
  const std::chrono::duration<double> running = Clock::now() - work.runs_since_;
  if (running.count() < options_.timeout_s || work.reached(work.marks_.end)) return;
  throw CommTimeout(timeout_text(work), operation_name(&work.operation()));
}

void WorkMonitor::look_at_launch(const CudaWork& work, Clock::time_point since) const {
  const std::chrono::duration<double> blocked = Clock::now() - since;
  if (blocked.count() < options_.timeout_s) return;
  throw CommTimeout(timeout_text(work) + "; the call has not returned",
                    operation_name(&work.operation()));
}

// A recorded work is in flight from when its recording was queued until its end is reached again.
// The events stand for the replay that was queued last. When several are queued, one that hangs
// before the last shows only by its peers, or as an error of NCCL.
void WorkMonitor::look_at_recorded() {
  std::vector<std::shared_ptr<CudaWork>> works;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(recorded_, [](const auto& recorded) { return recorded.expired(); });
    for (const auto& recorded : recorded_) {
      if (auto work = recorded.lock()) works.push_back(std::move(work));
    }
  }
  for (const auto& work : works) {
    // Neither mark is there where the next replay has been queued, and has not come to it.
    if (!work->reached(work->marks_.end) && work->reached(work->marks_.begin)) {
      look_at(*work);
    } else {
      work->runs_ = false;
    }
  }
}

}  // namespace ddpbench::comm
