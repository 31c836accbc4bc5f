// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA runtime's stand-in: one "GPU" whose memory is the host's.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/ops/cuda/launch.cuh"
#include "tests/cuda/host/host_stream.h"

using ddpbench::test::queue;

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

namespace {

constexpr std::size_t kAlignment = 256;

constexpr std::size_t kMemoryBytes = std::size_t{1} << 36;
std::size_t used_bytes = 0;  // that were ever handed out

// Memory of the device, or page-locked memory of the host: copies between such run on their own.
class KnownMemory {
 public:
  bool add(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return ranges_.emplace(address(data), bytes).second;
  }
  bool remove(const void* data) {
    const std::lock_guard lock(mutex_);
    return ranges_.erase(address(data)) > 0;
  }
  bool holds(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto after = ranges_.upper_bound(address(data));
    if (after == ranges_.begin()) return false;
    const auto& [begin, length] = *--after;
    return address(data) + bytes <= begin + length;
  }

 private:
  static std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> ranges_;
};

KnownMemory& known_memory() {
  static KnownMemory memory;
  return memory;
}

cudaError_t allocate(void** data, std::size_t bytes) {
  if (ddpbench::test::in_host_function()) return cudaErrorNotPermitted;
  if (bytes > kMemoryBytes) return cudaErrorMemoryAllocation;
  if (::posix_memalign(data, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*data, 0xFF, bytes);
  used_bytes += bytes;
  known_memory().add(*data, bytes);
  return cudaSuccess;
}

cudaError_t release(void* data) {
  if (ddpbench::test::in_host_function()) return cudaErrorNotPermitted;
  ddpbench::test::drain_all_streams();  // as cudaFree does
  known_memory().remove(data);
  return std::free(data), cudaSuccess;
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

// STAND_IN_GPUS of them; all are the same host.
cudaError_t cudaGetDeviceCount(int* count) {
  const char* const wanted = std::getenv("STAND_IN_GPUS");
  return *count = wanted == nullptr ? 1 : std::atoi(wanted), cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return ddpbench::test::drain_all_streams(), cudaSuccess; }
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

cudaError_t cudaMalloc(void** data, size_t bytes) { return allocate(data, bytes); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) { return allocate(data, bytes); }
cudaError_t cudaFree(void* data) { return release(data); }
cudaError_t cudaFreeHost(void* data) { return release(data); }
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  return known_memory().add(data, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}
cudaError_t cudaHostUnregister(void* data) {
  return known_memory().remove(data) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}
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
  const bool pageable = !known_memory().holds(to, bytes) || !known_memory().holds(from, bytes);
  const bool recording = stream != nullptr && stream != cudaStreamLegacy && stream->recording;
  if (!pageable || recording) return queue(stream, [=] { std::memcpy(to, from, bytes); });
  // Through memory of the driver's own, and the caller waits.
  const cudaError_t status = cudaStreamSynchronize(stream);
  if (status == cudaSuccess) std::memcpy(to, from, bytes);
  return status;
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

}  // extern "C"
