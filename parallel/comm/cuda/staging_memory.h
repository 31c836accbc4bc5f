// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StagingMemory: page-locked host memory through which the operands of one device's calls pass. A
// registered buffer has as many bytes of it, which other processes can map. Other operands borrow a
// block for one launch.
#pragma once

#include <deque>
#include <vector>

#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::comm {

class StagingMemory {
 public:
  explicit StagingMemory(Device& device) : device_(device) {}
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // Makes memory for `on_device`, which processes of this host can map. It stays in place until it
  // is removed. Throws DeviceError.
  const Buffer& add(BufferView on_device);
  // Throws CommError when it was not added.
  const Buffer& find(BufferView on_device) const;
  void remove(BufferView on_device);

  // The host's place for `elements`: within its buffer's memory, or in a borrowed block. Allocates
  // only when no block is free; blocks are kept.
  void* place_for(const Elements& elements);
  // Frees all that was borrowed. REQUIRES: its users were queued on the stream on which the next
  // borrowers are queued.
  void give_back() noexcept;

 private:
  struct Registered {
    BufferView on_device;
    Buffer on_host;
  };
  struct Block {
    Buffer memory;
    bool borrowed = false;
  };
  std::byte* borrow(std::size_t bytes);

  Device& device_;
  std::deque<Registered> registered_;
  std::vector<Block> blocks_;
};

}  // namespace ddpbench::comm
