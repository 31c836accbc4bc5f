// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// IpcControl: the flags and offers of one ipc communicator, in host memory that all ranks'
// processes and GPUs share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/runtime/shared_memory.h"

namespace ddpbench::comm {

class IpcControl {
 public:
  static std::shared_ptr<IpcControl> create(const std::string& name, int size);
  static std::shared_ptr<IpcControl> open(const std::string& handle, int size);
  ~IpcControl();
  IpcControl(const IpcControl&) = delete;
  IpcControl& operator=(const IpcControl&) = delete;

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
  IpcControl(SharedMemory memory, int size);
  std::size_t number(int set, int from, int to) const noexcept;

  SharedMemory memory_;
  int size_;
  std::uint64_t device_ = 0;  // address of the memory
};

}  // namespace ddpbench::comm
