// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RingControl: the flags and offers of one CUDA ring, in host memory that all ranks' processes and
// GPUs share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/runtime/shared_memory.h"

namespace ddpbench::comm {

class RingControl {
 public:
  static std::shared_ptr<RingControl> create(const std::string& name, int size);
  static std::shared_ptr<RingControl> open(const std::string& handle, int size);
  ~RingControl();
  RingControl(const RingControl&) = delete;
  RingControl& operator=(const RingControl&) = delete;

  int size() const noexcept { return size_; }
  std::string handle() const { return memory_.handle(); }

  // As the host sees them.
  std::uint32_t& aborted() const noexcept;
  std::uint32_t& flag(int set, int from, int to) const noexcept;
  // As the device sees them.
  std::uint64_t device_aborted() const noexcept { return device_; }
  std::uint64_t device_flag(int set, int from, int to) const noexcept;
  std::uint64_t device_offer(int set, int from, int to) const noexcept;

 private:
  RingControl(SharedMemory memory, int size);
  std::size_t number(int set, int from, int to) const noexcept;

  SharedMemory memory_;
  int size_;
  std::uint64_t device_ = 0;  // address of the memory
};

}  // namespace ddpbench::comm
