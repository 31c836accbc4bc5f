// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// IpcMemory: the memory of this rank that its peers can read, and the place where theirs is mapped
// here. Among threads of one process it is all memory; among processes, registered buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/runtime/cuda/cuda_memory.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/cuda/ipc/ipc_kernels.h"
#include "parallel/comm/operation.h"

namespace ddpbench::comm {

class IpcMemory {
 public:
  IpcMemory(Device& device, int rank, int size, bool threads);

  // The table of the mapped buffers, as the device sees it.
  const std::uint64_t* bases() const noexcept { return bases_; }

  bool is_readable(const Elements& elements) const;
  // What peers are told of where the elements begin; add bytes for places behind it. REQUIRES:
  // readable.
  std::uint64_t offer(const Elements& elements) const;

  // All ranks add and remove in the same order, so that numbers agree. `handles` are [rank].
  // REQUIRES: the device is current, and no operation is in flight.
  void add(BufferView own, const std::vector<std::string>& handles);
  void remove(BufferView own);  // throws CommError when it is not registered
  void clear();                 // unmaps everything

 private:
  struct Registration {
    BufferView own;
    std::vector<std::unique_ptr<cuda::ImportedMemory>> peers;
  };
  // The number of the registration that holds the bytes.
  std::optional<std::size_t> find(BufferView memory) const;
  void drop(std::size_t number);
  std::uint64_t& base(int peer, std::size_t number) const;

  const int rank_, size_;
  const bool threads_;
  Buffer table_;  // in host memory
  const std::uint64_t* bases_ = nullptr;
  std::vector<std::optional<Registration>> registrations_;
};

}  // namespace ddpbench::comm
