// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's memory: its "GPU memory" is host memory.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/cuda/host/host_memory.h"
#include "tests/cuda/host/host_stream.h"

namespace {

constexpr std::size_t kAlignment = 256;

// STAND_IN_MEMORY_BYTES. Every process has this much for itself.
std::size_t memory_bytes() {
  const char* const wanted = std::getenv("STAND_IN_MEMORY_BYTES");
  return wanted == nullptr ? std::size_t{1} << 36 : std::strtoull(wanted, nullptr, 10);
}

enum class Kind { device, host, registered };

struct Block {
  Kind kind;
  std::size_t bytes;
  int device;
};

std::mutex mutex;
std::map<std::uintptr_t, Block> blocks;  // by address
std::size_t used_bytes = 0;              // on all devices

std::uintptr_t address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

// The block in which `bytes` at `address` lie, or blocks.end().
auto find(std::uintptr_t address, std::size_t bytes) {
  auto at = blocks.upper_bound(address);
  if (at == blocks.begin()) return blocks.end();
  --at;
  return address - at->first + bytes <= at->second.bytes ? at : blocks.end();
}

cudaError_t allocate(void** data, std::size_t bytes, Kind kind) {
  if (const cudaError_t status = ddpbench::test::refusal_of_unsafe_call()) return status;
  Block block{kind, bytes, ddpbench::test::current_device()};
  const std::lock_guard lock(mutex);
  if (kind == Kind::device && bytes > memory_bytes() - std::min(memory_bytes(), used_bytes)) {
    return cudaErrorMemoryAllocation;
  }
  if (::posix_memalign(data, kAlignment, bytes) != 0) *data = nullptr;
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*data, 0xFF, bytes);
  if (kind == Kind::device) used_bytes += bytes;
  blocks.emplace(address_of(*data), block);
  return cudaSuccess;
}

void release(void* data, const Block& block) {
  if (block.kind == Kind::device) used_bytes -= block.bytes;
  if (block.kind != Kind::registered) std::free(data);
}

// Removes the block that begins at `data`.
cudaError_t remove(void* data, Kind kind) {
  const std::lock_guard lock(mutex);
  const auto at = blocks.find(address_of(data));
  if (at == blocks.end() || at->second.kind != kind) return cudaErrorInvalidValue;
  release(data, at->second);
  blocks.erase(at);
  return cudaSuccess;
}

}  // namespace

namespace ddpbench::test {

bool can_be_reached(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  return find(address, bytes) != blocks.end();
}

}  // namespace ddpbench::test

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) { return allocate(data, bytes, Kind::device); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return allocate(data, bytes, Kind::host);
}
// Waits for the device, as in CUDA.
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  ddpbench::test::wait_for_nccl();
  if (const cudaError_t status = ddpbench::test::refusal()) return status;
  int device = 0;
  {
    const std::lock_guard lock(mutex);
    const auto at = blocks.find(address_of(data));
    if (at == blocks.end()) return cudaErrorInvalidValue;
    device = at->second.device;
  }
  ddpbench::test::synchronize_device(device);
  return remove(data, Kind::device);
}
cudaError_t cudaFreeHost(void* data) {
  return data == nullptr ? cudaSuccess : remove(data, Kind::host);
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  const std::lock_guard lock(mutex);
  if (find(address_of(data), 1) != blocks.end()) return cudaErrorHostMemoryAlreadyRegistered;
  blocks.emplace(address_of(data),
                 Block{Kind::registered, bytes, ddpbench::test::current_device()});
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* data) {
  return remove(data, Kind::registered) == cudaSuccess ? cudaSuccess
                                                       : cudaErrorHostMemoryNotRegistered;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  const std::lock_guard lock(mutex);
  *total = memory_bytes();
  *free_bytes = memory_bytes() - std::min(memory_bytes(), used_bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  return std::memset(data, value, bytes), cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return ddpbench::test::queue(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return ddpbench::test::queue(stream, [=] { std::memset(data, value, bytes); });
}

}  // extern "C"
