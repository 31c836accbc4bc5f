// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA runtime's stand-in: one "GPU" whose memory is the host's.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "kernels/ops/cuda/launch.cuh"
#include "tests/cuda/host/host_stream.h"

using ddpbench::test::queue;

struct CUevent_st {
  double time_ms = -1;
  bool hangs = false;
};
struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

namespace {

constexpr std::size_t kAlignment = 256;

double now_ms() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// STAND_IN_MEMORY_BYTES of a "GPU", which every process has for itself.
std::size_t memory_bytes() {
  const char* const wanted = std::getenv("STAND_IN_MEMORY_BYTES");
  return wanted == nullptr ? std::size_t{1} << 36 : std::strtoull(wanted, nullptr, 10);
}

std::mutex allocations_mutex;
std::map<void*, std::size_t> allocations;  // bytes, of device memory
std::size_t used_bytes = 0;                // their sum

cudaError_t allocate(void** data, std::size_t bytes) {
  if (::posix_memalign(data, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*data, 0xFF, bytes);
  return cudaSuccess;
}

cudaError_t allocate_device(void** data, std::size_t bytes) {
  const std::lock_guard lock(allocations_mutex);
  if (bytes > memory_bytes() - std::min(memory_bytes(), used_bytes)) {
    return cudaErrorMemoryAllocation;
  }
  const cudaError_t status = allocate(data, bytes);
  if (status != cudaSuccess) return status;
  allocations[*data] = bytes;
  used_bytes += bytes;
  return cudaSuccess;
}

cudaError_t free_device(void* data) {
  const std::lock_guard lock(allocations_mutex);
  if (const auto found = allocations.find(data); found != allocations.end()) {
    used_bytes -= found->second;
    allocations.erase(found);
  } else if (data != nullptr) {
    return cudaErrorInvalidValue;
  }
  std::free(data);
  return cudaSuccess;
}

// STAND_IN_GPUS of them, all the same host, or those of them whose numbers CUDA_VISIBLE_DEVICES
// lists until the first that is none.
std::vector<int> visible_gpus() {
  const char* const wanted = std::getenv("STAND_IN_GPUS");
  const int count = wanted == nullptr ? 1 : std::atoi(wanted);
  const char* const listed = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream numbers(listed == nullptr ? "" : listed);
  std::vector<int> visible;
  for (int i = 0; listed == nullptr && i < count; ++i) visible.push_back(i);
  for (std::string number; std::getline(numbers, number, ',');) {
    const int gpu = number.empty() ? -1 : std::atoi(number.c_str());
    if (gpu < 0 || gpu >= count) break;
    visible.push_back(gpu);
  }
  return visible;
}

// After STAND_IN_HANGS_AT events were recorded the "GPU" comes to no end: later events are never
// reached, and what waits for it to be idle does so for ever. A file "hangs" says that it began.
std::atomic<long> recorded_events{0};
bool hangs() {
  const char* const at = std::getenv("STAND_IN_HANGS_AT");
  return at != nullptr && recorded_events > std::atol(at);
}
cudaError_t wait_until_idle() {
  while (hangs()) ::pause();
  return cudaSuccess;
}

}  // namespace

namespace ddpbench {
namespace test {

float round_to_tf32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

int& compute_capability() {
  static int capability = 90;
  return capability;
}

int& algorithm_searches() {
  static int searches = 0;
  return searches;
}

}  // namespace test

namespace ops::cuda {

cudaError_t queue_on_host(cudaStream_t stream, std::function<void()> work) {
  return queue(stream, std::move(work));
}

}  // namespace ops::cuda
}  // namespace ddpbench

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return *count = static_cast<int>(visible_gpus().size()), cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return wait_until_idle(); }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheHost"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = cudaDeviceProp{};
  properties->uuid.bytes[0] = static_cast<char>(visible_gpus().at(device));
  std::strcpy(properties->name, "The host");
  properties->major = ddpbench::test::compute_capability() / 10;
  properties->minor = ddpbench::test::compute_capability() % 10;
  properties->multiProcessorCount = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const bool major = attribute == cudaDevAttrComputeCapabilityMajor;
  const int capability = ddpbench::test::compute_capability();
  *value = major ? capability / 10 : capability % 10;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int, int) {
  std::strcpy(id, "0000:00:00.0");
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) { return allocate_device(data, bytes); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) { return allocate(data, bytes); }
cudaError_t cudaFree(void* data) { return wait_until_idle(), free_device(data); }
cudaError_t cudaFreeHost(void* data) { return wait_until_idle(), std::free(data), cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  const std::lock_guard lock(allocations_mutex);
  *total = memory_bytes();
  *free_bytes = memory_bytes() - std::min(memory_bytes(), used_bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  return std::memset(data, value, bytes), cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return queue(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return cudaErrorNotSupported; }
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaIpcCloseMemHandle(void*) { return cudaErrorNotSupported; }
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  return cudaErrorNotSupported;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = new CUstream_st, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
// Nothing may wait for a stream that records.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const bool recording = stream != cudaStreamLegacy && stream->recording;
  return recording ? cudaErrorStreamCaptureUnsupported : wait_until_idle();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  ++stream->recordings;
  return stream->recording = true, cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  stream->recording = false;
  *graph = new CUgraph_st{std::move(stream->recorded)};
  stream->recorded.clear();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return *executable = new CUgraphExec_st{graph->work}, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  for (const auto& work : executable->work) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return delete executable, cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return queue(stream, [=] {
    ++recorded_events;
    event->time_ms = now_ms();
    event->hangs = hangs();
    if (event->hangs) std::ofstream("hangs");
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->hangs ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return event->hangs ? wait_until_idle() : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (from->hangs || to->hangs) return cudaErrorNotReady;
  return *milliseconds = static_cast<float>(to->time_ms - from->time_ms), cudaSuccess;
}

}  // extern "C"
