// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda/cuda_memory.h"

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/math.h"
#include "base/text.h"
#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/current_device.h"
#include "kernels/runtime/cuda/driver_function.h"
#include "kernels/runtime/memory_needs.h"

namespace ddpbench::cuda {
namespace {

constexpr std::size_t kAlignmentBytes = 256;  // what cudaMalloc promises (CUDA C++ Guide, 5.3.2)

constexpr std::size_t kBlockBytes = 2 * kMiB;  // of which cudaMalloc hands out parts

// cudaMalloc may hand out parts of a larger block, and IPC exports whole blocks.
std::size_t offset_in_block(const void* data) {
  using GetRange = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
  const auto get_range = driver_function<GetRange>("cuMemGetAddressRange");
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (get_range(&base, &bytes, address) != CUDA_SUCCESS) {
    throw DeviceError("cuMemGetAddressRange failed for memory of this process");
  }
  return static_cast<std::size_t>(address - base);
}

std::string to_hex(const cudaIpcMemHandle_t& handle) {
  std::string text;
  for (const char c : handle.reserved) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

bool from_hex(std::string_view text, cudaIpcMemHandle_t& handle) {
  if (text.size() != 2 * sizeof(handle.reserved)) return false;
  for (std::size_t i = 0; i < sizeof(handle.reserved); ++i) {
    const std::string byte(text.substr(2 * i, 2));
    char* end = nullptr;
    handle.reserved[i] = static_cast<char>(std::strtoul(byte.c_str(), &end, 16));
    if (*end != '\0') return false;
  }
  return true;
}

class DeviceAllocation final : public Allocation {
 public:
  DeviceAllocation(const CudaMemoryRequest& request, void* data,
                   std::shared_ptr<MemoryCounter> counter)
      : ordinal_(request.ordinal),
        view_{static_cast<std::byte*>(data), request.bytes},
        counted_(std::move(counter), request.category,
                 allocated_bytes(request.bytes, request.sharing)) {}
  ~DeviceAllocation() override { static_cast<void>(cudaFree(view_.data)); }
  DeviceAllocation(const DeviceAllocation&) = delete;
  DeviceAllocation& operator=(const DeviceAllocation&) = delete;

  BufferView view() const noexcept override { return view_; }

  // "cuda:<pid>:<hex of the IPC handle>:<offset in its block>:<bytes>"
  std::string export_handle() const override {
    const CurrentDevice current(ordinal_);
    cudaIpcMemHandle_t handle{};
    check(cudaIpcGetMemHandle(&handle, view_.data), "cudaIpcGetMemHandle");
    return fmt::format("cuda:{}:{}:{}:{}", ::getpid(), to_hex(handle), offset_in_block(view_.data),
                       view_.bytes);
  }

 private:
  int ordinal_;
  BufferView view_;
  CountedBytes counted_;
};

class PinnedAllocation final : public Allocation {
 public:
  PinnedAllocation(void* data, std::size_t bytes) : view_{static_cast<std::byte*>(data), bytes} {}
  ~PinnedAllocation() override { static_cast<void>(cudaFreeHost(view_.data)); }
  PinnedAllocation(const PinnedAllocation&) = delete;
  PinnedAllocation& operator=(const PinnedAllocation&) = delete;
  BufferView view() const noexcept override { return view_; }
  std::string export_handle() const override { return ""; }

 private:
  BufferView view_;
};

[[noreturn]] void throw_out_of_memory(const CudaMemoryRequest& request,
                                      const MemoryCounter& counter) {
  std::size_t free_bytes = 0, total_bytes = 0;
  static_cast<void>(cudaMemGetInfo(&free_bytes, &total_bytes));
  throw DeviceError(fmt::format(
      "{}: cannot allocate {} bytes for {}: {} of its {} bytes are free; use a smaller batch or "
      "smaller buffers; this process holds{}",
      request.device, request.bytes, to_string(request.category), free_bytes, total_bytes,
      memory_table(counter.usage().live_bytes)));
}

void fill_with_zeros(void* data, std::size_t bytes) {
  check(cudaMemset(data, 0, bytes), "cudaMemset");
  // Streams here do not wait for the default stream.
  check(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemset");
}

}  // namespace

std::size_t allocated_bytes(std::size_t bytes, Sharing sharing) noexcept {
  return round_up(std::max(bytes, std::size_t{1}),
                  sharing == Sharing::mappable ? kBlockBytes : kAlignmentBytes);
}

std::unique_ptr<Allocation> allocate_device_memory(const CudaMemoryRequest& request,
                                                   std::shared_ptr<MemoryCounter> counter) {
  const CurrentDevice current(request.ordinal);
  void* data = nullptr;
  const std::size_t bytes = allocated_bytes(request.bytes, request.sharing);
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // the error is not sticky: the device stays usable
    throw_out_of_memory(request, *counter);
  }
  check(status, "cudaMalloc");
  auto allocation = std::make_unique<DeviceAllocation>(request, data, std::move(counter));
  fill_with_zeros(data, bytes);
  return allocation;
}

std::unique_ptr<Allocation> allocate_pinned_memory(const std::string& device, std::size_t bytes) {
  void* data = nullptr;
  const std::size_t pinned_bytes = allocated_bytes(bytes, Sharing::process_private);
  check_with(cudaHostAlloc(&data, pinned_bytes, cudaHostAllocPortable),
             [&] { return fmt::format("{}: cannot lock {} bytes of host memory", device, bytes); });
  std::memset(data, 0, pinned_bytes);
  return std::make_unique<PinnedAllocation>(data, bytes);
}

ImportedMemory::ImportedMemory(const std::string& handle) {
  const std::vector<std::string> parts = split(handle, ':');
  cudaIpcMemHandle_t native{};
  if (parts.size() != 5 || parts[0] != "cuda" || !from_hex(parts[2], native)) {
    throw CommError(fmt::format("'{}' is no handle of CUDA memory", handle));
  }
  if (parts[1] == std::to_string(::getpid())) {
    throw CommError("CUDA memory of this process cannot be imported into it");
  }
  check(cudaIpcOpenMemHandle(&base_, native, cudaIpcMemLazyEnablePeerAccess),
        "mapping a peer's memory (cudaIpcOpenMemHandle)");
  view_ = {static_cast<std::byte*>(base_) + std::stoull(parts[3]), std::stoull(parts[4])};
}

ImportedMemory::~ImportedMemory() {
  if (base_ != nullptr) static_cast<void>(cudaIpcCloseMemHandle(base_));
}

}  // namespace ddpbench::cuda
