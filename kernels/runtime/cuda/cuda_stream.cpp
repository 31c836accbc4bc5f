// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda/cuda_stream.h"

#include <chrono>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "kernels/runtime/cuda/cuda_calls.h"

namespace ddpbench::cuda {
namespace {

// A float of milliseconds resolves a quarter of a microsecond up to 4.2 seconds, and less beyond.
constexpr double kBaseLifetime_s = 4;
// The shortest of several readings is the one that was not disturbed.
constexpr int kCalibrationLooks = 8;

double elapsed_s(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

bool is_recording(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

class CudaGraph final : public Recording {
 public:
  // Takes over `graph`. `stream` is any stream of the graph's device, for the upload.
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : graph_(graph) {
    // Recorded communication keeps the priority of its streams. Without the flag it would get that
    // of the stream on which the step is replayed.
    const cudaError_t status =
        cudaGraphInstantiate(&executable_, graph_, cudaGraphInstantiateFlagUseNodePriority);
    if (status != cudaSuccess) static_cast<void>(cudaGraphDestroy(graph_));
    check(status, "cudaGraphInstantiate");
    // Without the upload the first launch does this work, perhaps in a timed step.
    const cudaError_t uploaded = cudaGraphUpload(executable_, stream);
    if (uploaded != cudaSuccess) destroy();
    check(uploaded, "cudaGraphUpload");
  }
  ~CudaGraph() override { destroy(); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void replay(Stream& stream) override {
    check(cudaGraphLaunch(executable_, native_stream(stream)), "cudaGraphLaunch");
  }

 private:
  void destroy() noexcept {
    static_cast<void>(cudaGraphExecDestroy(executable_));
    static_cast<void>(cudaGraphDestroy(graph_));
  }

  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

CudaEvent& native_event(Event& event, const Device& device) {
  auto* const cuda_event = dynamic_cast<CudaEvent*>(&event);
  ensure(cuda_event != nullptr, "an event of another kind of device on a stream of {}",
         device.name());
  return *cuda_event;
}

}  // namespace

CudaClock::CudaClock(int ordinal) : ordinal_(ordinal) {
  const CurrentDevice current(ordinal_);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreate(&base_), "cudaEventCreate");
  check(cudaEventCreate(&next_), "cudaEventCreate");
  calibrate();
}

CudaClock::~CudaClock() {
  static_cast<void>(cudaEventDestroy(base_));
  static_cast<void>(cudaEventDestroy(next_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaClock::calibrate() {
  const CurrentDevice current(ordinal_);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  double shortest_s = std::numeric_limits<double>::infinity();
  for (int look = 0; look < kCalibrationLooks; ++look) {
    const double before_s = steady_s();
    check(cudaEventRecord(next_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(next_), "cudaEventSynchronize");
    const double after_s = steady_s();
    if (after_s - before_s >= shortest_s) continue;
    shortest_s = after_s - before_s;
    base_s_ = before_s + shortest_s / 2;
    std::swap(base_, next_);
  }
}

void CudaClock::move_base() {
  check(cudaEventRecord(next_, stream_), "cudaEventRecord");
  check(cudaEventSynchronize(next_), "cudaEventSynchronize");
  base_s_ += elapsed_s(base_, next_);
  std::swap(base_, next_);
}

double CudaClock::time_s(cudaEvent_t event) {
  const CurrentDevice current(ordinal_);
  // An event from before the base lies at a negative distance from it.
  if (steady_s() - base_s_ > kBaseLifetime_s) move_base();
  return base_s_ + elapsed_s(base_, event);
}

CudaEvent::CudaEvent(int ordinal, std::shared_ptr<CudaClock> clock) : clock_(std::move(clock)) {
  const CurrentDevice current(ordinal);
  check(cudaEventCreate(&event_), "cudaEventCreate");
}

CudaEvent::~CudaEvent() { static_cast<void>(cudaEventDestroy(event_)); }

bool CudaEvent::reached() const {
  if (!recorded_) return false;  // CUDA would call it reached
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

double CudaEvent::time_s() const {
  ensure(recorded_, "the time of an event that was never recorded");
  return clock_->time_s(event_);
}

void CudaEvent::record_on(cudaStream_t stream) {
  const unsigned flags = is_recording(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
  check(cudaEventRecordWithFlags(event_, stream, flags), "cudaEventRecord");
  recorded_ = true;
}

void CudaEvent::order(cudaStream_t stream) const {
  ensure(recorded_, "a stream waits for an event that was never recorded");
  const unsigned flags = is_recording(stream) ? cudaEventWaitExternal : cudaEventWaitDefault;
  check(cudaStreamWaitEvent(stream, event_, flags), "cudaStreamWaitEvent");
}

CudaStream::CudaStream(Device& device, int ordinal) : device_(device), ordinal_(ordinal) {
  const CurrentDevice current(ordinal_);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

CudaStream::~CudaStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

void CudaStream::record(Event& event) { native_event(event, device_).record_on(stream_); }

void CudaStream::wait(const Event& event) {
  const auto* const cuda_event = dynamic_cast<const CudaEvent*>(&event);
  ensure(cuda_event != nullptr, "{} waits for an event of another kind of device", device_.name());
  cuda_event->order(stream_);
}

void CudaStream::synchronize() {
  check_with(cudaStreamSynchronize(stream_), [&] { return device_.name() + " failed"; });
}

void CudaStream::begin_recording() {
  // Thread-local: other threads of the process (loader, communication) may call CUDA meanwhile.
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
}

std::unique_ptr<Recording> CudaStream::end_recording() {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_, &graph), "the step cannot be recorded as a CUDA graph");
  const CurrentDevice current(ordinal_);
  return std::make_unique<CudaGraph>(graph, stream_);
}

cudaStream_t native_stream(Stream& stream) {
  auto* const cuda_stream = dynamic_cast<CudaStream*>(&stream);
  ensure(cuda_stream != nullptr, "a stream of {} where a CUDA stream is needed",
         stream.device().name());
  return cuda_stream->native();
}

NativeDevice& native_device(Device& device) {
  auto* const native = dynamic_cast<NativeDevice*>(&device);
  ensure(native != nullptr, "{} is no CUDA device", device.name());
  return *native;
}

}  // namespace ddpbench::cuda
