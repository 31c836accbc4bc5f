// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA runtime's stand-in: one "GPU" whose memory is the host's.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/ops/cuda/launch.cuh"
#include "tests/cuda/host/host_stream.h"

using ddpbench::test::queue;

struct CUevent_st {
  double time_ms = -1;
};
struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kMultiprocessors = 2;
constexpr int kL2Bytes = 1 << 16;

double passed_ms = 0;  // beside what really passed

double now_ms() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count() + passed_ms;
}

constexpr std::size_t kMemoryBytes = std::size_t{1} << 36;
std::size_t used_bytes = 0;  // that were ever handed out

cudaError_t allocate(void** data, std::size_t bytes) {
  if (bytes > kMemoryBytes) return cudaErrorMemoryAllocation;
  if (::posix_memalign(data, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*data, 0xFF, bytes);
  used_bytes += bytes;
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

std::size_t& recorded_nodes() {
  static std::size_t nodes = 0;
  return nodes;
}

PretendedCosts& pretended_costs() {
  static PretendedCosts costs;
  return costs;
}

void let_time_pass(double ms) { passed_ms += ms; }

}  // namespace test

namespace ops::cuda {

cudaError_t queue_on_host(cudaStream_t stream, std::function<void()> work) {
  return queue(stream, [work = std::move(work)] {
    test::let_time_pass(test::pretended_costs().kernel_ms);
    work();
  });
}

}  // namespace ops::cuda
}  // namespace ddpbench

extern "C" {

// STAND_IN_GPUS of them; all are the same host.
cudaError_t cudaGetDeviceCount(int* count) {
  const char* const wanted = std::getenv("STAND_IN_GPUS");
  return *count = wanted == nullptr ? 1 : std::atoi(wanted), cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheHost"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "The host");
  properties->major = ddpbench::test::compute_capability() / 10;
  properties->minor = ddpbench::test::compute_capability() % 10;
  properties->multiProcessorCount = kMultiprocessors;
  properties->l2CacheSize = kL2Bytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const int capability = ddpbench::test::compute_capability();
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return *value = capability / 10, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = capability % 10, cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      return *value = kMultiprocessors, cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int, int) {
  std::strcpy(id, "0000:00:00.0");
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) { return allocate(data, bytes); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) { return allocate(data, bytes); }
cudaError_t cudaFree(void* data) { return std::free(data), cudaSuccess; }
cudaError_t cudaFreeHost(void* data) { return std::free(data), cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  *total = kMemoryBytes;
  *free_bytes = kMemoryBytes - used_bytes % kMemoryBytes;
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
  return recording ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
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
  ddpbench::test::recorded_nodes() = stream->recorded.size();
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
  return queue(stream, [=] { event->time_ms = now_ms(); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return *milliseconds = static_cast<float>(to->time_ms - from->time_ms), cudaSuccess;
}

}  // extern "C"
