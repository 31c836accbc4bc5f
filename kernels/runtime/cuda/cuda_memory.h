// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of CUDA devices. For the CUDA module's sources.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/memory_counter.h"

namespace ddpbench::cuda {

struct CudaMemoryRequest {
  std::string device;  // for messages
  int ordinal = 0;
  std::size_t bytes = 0;
  MemoryCategory category = MemoryCategory::workspace;
  Sharing sharing = Sharing::process_private;
};

// The size that is allocated for a buffer of `bytes`: a multiple of 256 bytes, CUDA's alignment.
// Mappable memory gets a multiple of 2 MiB and so shares no block with other memory: IPC maps whole
// blocks, each once.
std::size_t allocated_bytes(std::size_t bytes, Sharing sharing) noexcept;

// Returns zeroed memory from cudaMalloc, which IPC handles need. It counts as allocated_bytes().
// When there is not enough, throws DeviceError with a table of what `counter` counts.
std::unique_ptr<Allocation> allocate_device_memory(const CudaMemoryRequest& request,
                                                   std::shared_ptr<MemoryCounter> counter);

// Zeroed page-locked host memory for copies by any device of the process. Throws DeviceError.
std::unique_ptr<Allocation> allocate_pinned_memory(const std::string& device, std::size_t bytes);

// A mapping of another process's memory. That process, on this host, must outlive the mapping.
class ImportedMemory {
 public:
  // `handle` comes from Allocation::export_handle. REQUIRES: the device that will use the memory is
  // current. Throws CommError when the handle is malformed or of this process, DeviceError when
  // CUDA refuses.
  explicit ImportedMemory(const std::string& handle);
  ~ImportedMemory();
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;

  BufferView view() const noexcept { return view_; }

 private:
  void* base_ = nullptr;  // of the allocation that holds the view
  BufferView view_;
};

}  // namespace ddpbench::cuda
