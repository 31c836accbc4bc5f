// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU device: a group of cores that executes operations on its own threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/device.h"

namespace ddpbench {

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
