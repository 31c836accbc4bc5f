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

// What is allocated for a buffer of `bytes`: rounded up to 256, CUDA's alignment; what other
// processes may map to 2 MiB, so that it shares no block with anything else: IPC maps whole blocks,
// each once.
std::size_t allocated_bytes(std::size_t bytes, Sharing sharing) noexcept;

// Zeroed memory from cudaMalloc, which IPC handles need. Counted as allocated_bytes(). Throws
// DeviceError, with a table of what `counter` counts, when there is not enough.
std::unique_ptr<Allocation> allocate_device_memory(const CudaMemoryRequest& request,
                                                   std::shared_ptr<MemoryCounter> counter);

// Zeroed page-locked host memory that every device of the process may copy. Throws DeviceError.
std::unique_ptr<Allocation> allocate_pinned_memory(const std::string& device, std::size_t bytes);

// Memory of another process of this host, which must live as long as this object.
class ImportedMemory {
 public:
  // `handle` as Allocation::export_handle gave it. REQUIRES: the device that shall use it is
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
