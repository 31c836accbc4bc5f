// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that peers may read directly: among processes registered buffers, each mapped once by
// every rank; among threads of one process all of it. Not thread-safe: only the thread that
// executes collectives uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/shm/peers/control_block.h"

namespace ddpbench::comm {

class PeerMemory {
 public:
  PeerMemory(int rank, FutexScope scope) : rank_(rank), scope_(scope) {}

  // How this rank's memory is announced to its peers; kStaged when no peer can map it.
  MemoryLocation locate(const Elements& elements) const;
  // The address here of `bytes` that `peer` announced. Throws CommError when they do not lie in a
  // registered buffer, and for the address of another process. Among threads of one process any
  // address is believed. REQUIRES: not kStaged.
  std::byte* resolve(int peer, const MemoryLocation& memory, std::size_t bytes) const;

  // Maps the peers' buffers. `handles` are [rank], empty where a rank has no bytes. All ranks add
  // in the same order, so that numbers agree.
  void add(BufferView own, const std::vector<std::string>& handles);
  // Throws CommError when `own` is not registered.
  void remove(BufferView own);

 private:
  struct Registration {
    std::int64_t number = 0;
    BufferView own;
    std::vector<SharedMemory> peers;  // [rank]; own and empty ones are not mapped
  };

  const int rank_;
  const FutexScope scope_;
  std::int64_t next_number_ = 0;
  std::vector<Registration> registrations_;
};

// A mark that is equal for processes that can reach each other's memory through /proc/<pid>/fd: one
// boot of one host, one PID and user namespace, one user. The text before the first space
// identifies the host.
std::string host_mark();

}  // namespace ddpbench::comm
