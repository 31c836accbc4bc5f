// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the memory of a CPU device comes from. Private to the CPU device.
#pragma once

#include <memory>
#include <string>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/memory_counter.h"

namespace ddpbench {

struct CpuMemoryRequest {
  std::string device;  // for messages
  std::size_t bytes = 0;
  MemoryCategory category = MemoryCategory::workspace;
  Sharing sharing = Sharing::process_private;
};

// `bytes` rounded up to 64.
std::size_t counted_bytes(std::size_t bytes) noexcept;

// Zeroed memory whose pages are there already: a training step must not fault. Pages lie near the
// calling thread. Counted as counted_bytes(). Throws DeviceError, with a table of what `counter`
// counts, when there is not enough.
std::unique_ptr<Allocation> allocate_cpu_memory(const CpuMemoryRequest& request,
                                                std::shared_ptr<MemoryCounter> counter);

}  // namespace ddpbench
