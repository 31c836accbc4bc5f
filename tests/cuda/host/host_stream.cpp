// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of the stand-in. An event counts how often it was recorded and reached, so
// that it can be recorded again while somebody waits for an earlier time.
#include "tests/cuda/host/host_stream.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

using ddpbench::test::in_host_function;
using ddpbench::test::queue;

namespace ddpbench::test {

// All that there are.
struct StreamThreads {
  std::mutex mutex;
  std::set<StreamThread*> threads;
};

StreamThreads& stream_threads() {
  static StreamThreads all;
  return all;
}

class StreamThread {
 public:
  StreamThread() : thread_([this] { serve(); }) {
    const std::lock_guard lock(stream_threads().mutex);
    stream_threads().threads.insert(this);
  }
  ~StreamThread() {
    {
      const std::lock_guard lock(stream_threads().mutex);
      stream_threads().threads.erase(this);
    }
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  void push(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      queued_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex_);
    return queued_.empty();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queued_.empty(); });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !queued_.empty(); });
      if (queued_.empty()) return;
      const std::function<void()> work = queued_.front();
      lock.unlock();
      work();
      lock.lock();
      queued_.pop_front();  // only now: work that runs is not done
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queued_;
  bool ending_ = false;
  std::thread thread_;
};

void drain_all_streams() {
  const std::lock_guard lock(stream_threads().mutex);
  for (StreamThread* const thread : stream_threads().threads) thread->drain();
}

cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  if (in_host_function()) return cudaErrorNotPermitted;
  const bool special = stream == nullptr || stream == cudaStreamLegacy;
  if (!special && stream->recording) {
    stream->recorded.push_back(std::move(work));
  } else if (!special && stream->thread) {
    stream->thread->push(std::move(work));
  } else {
    work();
  }
  return cudaSuccess;
}

bool& asynchronous_streams() {
  static bool asynchronous = false;
  return asynchronous;
}

bool& in_host_function() {
  static thread_local bool inside = false;
  return inside;
}

}  // namespace ddpbench::test

CUstream_st::CUstream_st() {
  if (ddpbench::test::asynchronous_streams()) {
    thread = std::make_unique<ddpbench::test::StreamThread>();
  }
}
CUstream_st::~CUstream_st() = default;

namespace {

struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0, reached = 0;
  double time_ms = -1;
};

double now_ms() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t begin_record(EventState& event) {
  const std::lock_guard lock(event.mutex);
  return ++event.recorded;
}

std::uint64_t records_of(EventState& event) {
  const std::lock_guard lock(event.mutex);
  return event.recorded;
}

void reach(EventState& event, std::uint64_t number) {
  const std::lock_guard lock(event.mutex);
  event.time_ms = now_ms();
  event.reached = number;
  event.changed.notify_all();
}

double time_of(EventState& event) {
  const std::lock_guard lock(event.mutex);
  return event.time_ms;
}

void await(EventState& event, std::uint64_t number) {
  std::unique_lock lock(event.mutex);
  event.changed.wait(lock, [&] { return event.reached >= number; });
}

}  // namespace

// Outlives the handle while work is queued that touches it, as CUDA's does.
struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = new CUstream_st, cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return *stream = new CUstream_st, cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
// Nothing may wait for a stream that records.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (in_host_function()) return cudaErrorNotPermitted;
  if (stream == nullptr || stream == cudaStreamLegacy) return cudaSuccess;
  if (stream->recording) return cudaErrorStreamCaptureUnsupported;
  if (stream->thread) stream->thread->drain();
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->thread && !stream->thread->idle() ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::shared_ptr<EventState> state = event->state;
  const std::uint64_t number = records_of(*state);
  // Work runs where it is queued: what the event stands for has run, or is in the same recording.
  if (stream == nullptr || stream->recording || !stream->thread) return cudaSuccess;
  return queue(stream, [=] { await(*state, number); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* number, cudaGraph_t*,
                                        const cudaGraphNode_t**, size_t*) {
#endif
  *number = static_cast<unsigned long long>(stream->recordings);
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return queue(stream, [=] {
    in_host_function() = true;
    function(data);
    in_host_function() = false;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  if (in_host_function()) return cudaErrorNotPermitted;
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  const std::shared_ptr<EventState> state = event->state;
  const bool replayed = stream != nullptr && stream != cudaStreamLegacy && stream->recording;
  if (replayed) return queue(stream, [=] { reach(*state, begin_record(*state)); });
  const std::uint64_t number = begin_record(*state);
  return queue(stream, [=] { reach(*state, number); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (in_host_function()) return cudaErrorNotPermitted;
  const std::lock_guard lock(event->state->mutex);
  return event->state->reached < event->state->recorded ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return await(*event->state, records_of(*event->state)), cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return *milliseconds = static_cast<float>(time_of(*to->state) - time_of(*from->state)),
         cudaSuccess;
}

}  // extern "C"
