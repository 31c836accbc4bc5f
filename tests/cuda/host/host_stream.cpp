// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's streams and events.
#include "tests/cuda/host/host_stream.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "kernels/ops/cuda/kernels/launch.cuh"

namespace {

// After STAND_IN_HANGS_AT reached events the "GPU" hangs: its streams stand still, and a wait for
// one never ends. The file "hangs" shows that this began.
std::atomic<long> reached_events = 0;
void hang_if_asked() {
  const char* const at = std::getenv("STAND_IN_HANGS_AT");
  if (at == nullptr || ++reached_events <= std::atol(at)) return;
  const std::ofstream mark("hangs");
  while (true) ::pause();
}

double now_ms() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Lives until its last record has run, as CUDA's event does after its destruction.
class EventState {
 public:
  // The number of the record that was just queued.
  std::uint64_t begin_record() {
    const std::lock_guard lock(mutex_);
    capture_.reset();
    return ++recorded_;
  }
  void reach(std::uint64_t record) {
    hang_if_asked();
    {
      const std::lock_guard lock(mutex_);
      reached_ = std::max(reached_, record);
      time_ms_ = now_ms();
    }
    changed_.notify_all();
  }
  std::uint64_t recorded() {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }
  void wait(std::uint64_t record) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_ >= record; });
  }
  cudaError_t query() {
    const std::lock_guard lock(mutex_);
    if (is_captured_) return cudaErrorCapturedEvent;
    return reached_ >= recorded_ ? cudaSuccess : cudaErrorNotReady;
  }
  // The time of the last record in milliseconds; an error before it is reached.
  cudaError_t time_ms(double& time) {
    const std::lock_guard lock(mutex_);
    if (is_captured_ || recorded_ == 0) return cudaErrorInvalidResourceHandle;
    time = time_ms_;
    return reached_ >= recorded_ ? cudaSuccess : cudaErrorNotReady;
  }

  void captured(const std::shared_ptr<ddpbench::test::Capture>& capture,
                std::vector<std::size_t> tips) {
    const std::lock_guard lock(mutex_);
    capture_ = capture;
    is_captured_ = true;
    tips_ = std::move(tips);
  }
  void no_longer_captured() {
    const std::lock_guard lock(mutex_);
    is_captured_ = false;
  }
  // Whether the last record was in a capture, and which.
  bool capture(std::shared_ptr<ddpbench::test::Capture>& capture, std::vector<std::size_t>& tips) {
    const std::lock_guard lock(mutex_);
    capture = capture_.lock();
    tips = tips_;
    return is_captured_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0, reached_ = 0;
  double time_ms_ = 0;
  bool is_captured_ = false;
  std::weak_ptr<ddpbench::test::Capture> capture_;
  std::vector<std::size_t> tips_;
};

// The queues of all streams, by device.
std::mutex registry_mutex;
std::multimap<int, std::weak_ptr<ddpbench::test::WorkQueue>> registry;

thread_local int device_of_thread = 0;
thread_local bool runs_host_function = false;

}  // namespace

struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  bool has_times = true;
};

namespace ddpbench {
namespace test {

void WorkQueue::push(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    if (!serving_) std::thread([self = shared_from_this()] { self->serve(); }).detach();
    serving_ = true;
  }
  changed_.notify_all();
}

void WorkQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void WorkQueue::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return works_.empty() && !running_; });
}

bool WorkQueue::is_idle() {
  const std::lock_guard lock(mutex_);
  return works_.empty() && !running_;
}

void WorkQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !works_.empty() || closed_; });
    if (works_.empty()) return;
    std::function<void()> work = std::move(works_.front());
    works_.pop_front();
    running_ = true;
    lock.unlock();
    work();
    work = nullptr;  // frees what it holds before its end is reported
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

cudaError_t refusal() { return runs_host_function ? cudaErrorNotPermitted : cudaSuccess; }

cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  if (const cudaError_t status = refusal()) return status;
  if (stream == nullptr || stream == cudaStreamLegacy) {
    work();
  } else if (stream->capture) {
    capture(stream, [work = std::move(work)] { return work; });
  } else {
    stream->queue->push(std::move(work));
    if (waits_for_streams()) stream->queue->synchronize();
  }
  return cudaSuccess;
}

void synchronize_device(int device) {
  std::vector<std::shared_ptr<WorkQueue>> queues;
  {
    const std::lock_guard lock(registry_mutex);
    for (auto [at, end] = registry.equal_range(device); at != end;) {
      if (auto queue = at->second.lock()) {
        queues.push_back(std::move(queue));
        ++at;
      } else {
        at = registry.erase(at);
      }
    }
  }
  for (const auto& queue : queues) queue->synchronize();
}

bool& waits_for_streams() {
  static bool waits = false;
  return waits;
}

int current_device() { return device_of_thread; }

}  // namespace test

namespace ops::cuda {

cudaError_t queue_on_host(cudaStream_t stream, std::function<void()> work) {
  return test::queue(stream, std::move(work));
}

}  // namespace ops::cuda
}  // namespace ddpbench

using ddpbench::test::Capture;
using ddpbench::test::queue;

extern "C" {

cudaError_t cudaGetDevice(int* device) { return *device = device_of_thread, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  int count = 0;
  static_cast<void>(cudaGetDeviceCount(&count));
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  return device_of_thread = device, cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t status = ddpbench::test::refusal_of_unsafe_call()) return status;
  ddpbench::test::synchronize_device(device_of_thread);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = 0, *highest = -5, cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  // Other streams would wait for the default stream, which runs its work at once.
  if (flags != cudaStreamNonBlocking) return cudaErrorNotSupported;
  *stream = new CUstream_st{.device = device_of_thread};
  const std::lock_guard lock(registry_mutex);
  registry.emplace(device_of_thread, (*stream)->queue);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const cudaError_t status = cudaStreamCreateWithFlags(stream, flags);
  if (status == cudaSuccess) (*stream)->priority = priority;
  return status;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  ddpbench::test::wait_for_nccl();
  stream->queue->close();
  return delete stream, cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t status = ddpbench::test::refusal()) return status;
  if (stream == nullptr || stream == cudaStreamLegacy) return cudaSuccess;
  if (stream->capture) return cudaErrorStreamCaptureUnsupported;
  return stream->queue->synchronize(), cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream->capture) return cudaErrorStreamCaptureUnsupported;
  return stream->queue->is_idle() ? cudaSuccess : cudaErrorNotReady;
}

// "The host function must not make any CUDA API calls."
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return queue(stream, [=] {
    runs_host_function = true;
    function(data);
    runs_host_function = false;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t status = ddpbench::test::refusal()) return status;
  *event = new CUevent_st{.has_times = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  ddpbench::test::wait_for_nccl();
  return delete event, cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const auto state = event->state;
  const auto record = [state] {
    const std::uint64_t number = state->begin_record();
    return [state, number] { state->reach(number); };
  };
  const bool external = (flags & cudaEventRecordExternal) != 0;
  if (stream != nullptr && stream->capture && !external) {
    state->captured(stream->capture, stream->tips);
    return cudaSuccess;
  }
  state->no_longer_captured();
  if (stream != nullptr && stream->capture) {
    ddpbench::test::capture(stream, record);
    return cudaSuccess;
  }
  return external ? cudaErrorIllegalState : queue(stream, record());
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  const auto state = event->state;
  const auto wait = [state] {
    return [state, record = state->recorded()] { state->wait(record); };
  };
  if (flags == cudaEventWaitExternal) {
    if (!stream->capture) return cudaErrorIllegalState;
    ddpbench::test::capture(stream, wait);
    return cudaSuccess;
  }
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tips;
  if (!state->capture(capture, tips)) {
    // A capture must not wait for work outside of it.
    return stream->capture ? cudaErrorStreamCaptureIsolation : queue(stream, wait());
  }
  if (!capture || (stream->capture && stream->capture != capture)) {
    return cudaErrorStreamCaptureIsolation;
  }
  if (!stream->capture) {
    stream->capture = capture;
    capture->streams.push_back(stream);
  }
  for (const std::size_t tip : tips) {
    if (std::find(stream->tips.begin(), stream->tips.end(), tip) == stream->tips.end()) {
      stream->tips.push_back(tip);
    }
  }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t status = ddpbench::test::refusal_of_unsafe_call()) return status;
  return event->state->query();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t status = ddpbench::test::refusal_of_unsafe_call()) return status;
  const cudaError_t status = event->state->query();
  if (status == cudaErrorNotReady) event->state->wait(event->state->recorded());
  return status == cudaErrorNotReady ? cudaSuccess : status;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!from->has_times || !to->has_times) return cudaErrorInvalidResourceHandle;
  double begin_ms = 0, end_ms = 0;
  for (const auto& [event, time] : {std::pair{from, &begin_ms}, std::pair{to, &end_ms}}) {
    if (const cudaError_t status = event->state->time_ms(*time); status != cudaSuccess) {
      return status;
    }
  }
  return *milliseconds = static_cast<float>(end_ms - begin_ms), cudaSuccess;
}

}  // extern "C"
