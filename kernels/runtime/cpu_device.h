// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU device: a group of cores that executes operations on its own threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_counter.h"

namespace ddpbench {

// A request for memory of a CPU device.
struct CpuMemoryRequest {
  std::string device;  // for messages
  std::size_t bytes = 0;
  MemoryCategory category = MemoryCategory::workspace;
  Sharing sharing = Sharing::process_private;
};

// `bytes` rounded up to 64.
std::size_t counted_bytes(std::size_t bytes) noexcept;

// Returns zeroed memory whose pages are populated, so that no training step faults. The pages lie
// near the calling thread. The memory counts as counted_bytes(). When there is not enough, throws
// DeviceError with a table of what `counter` counts.
std::unique_ptr<Allocation> allocate_cpu_memory(const CpuMemoryRequest& request,
                                                std::shared_ptr<MemoryCounter> counter);

struct CpuDeviceOptions {
  int index = 0;             // becomes the name "cpu:<index>"
  int threads = 1;           // size of its OpenMP team, leading thread included
  std::vector<int> cores{};  // OS processor numbers to pin to, one a thread; empty: not pinned
  // The most memory that the device can have, where a limit holds for the process. Plans are
  // checked against it (Device::free_bytes); 0: not known.
  std::size_t memory_limit_bytes = 0;
  std::string memory_pool{};  // Device::memory_pool() of that memory
};

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace ddpbench
