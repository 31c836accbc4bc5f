// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the ipc backend. A kernel finds a peer's memory itself when it runs: the peer's
// offer is one word in memory that all ranks share. The host cannot pass the address when it queues
// the kernel, because it may be ahead of the peer, and because a recorded kernel is replayed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "parallel/comm/communicator.h"

namespace ddpbench::comm {

inline constexpr int kMaxIpcRanks = 64;
inline constexpr int kIpcRegistrations = 256;

// An offer is nothing, an address (between threads), or an offset into a registered buffer. The
// upper 16 bits tell which.
inline constexpr unsigned kOfferBits = 48;
inline constexpr std::uint64_t kOfferNothing = 0;
inline constexpr std::uint64_t kOfferAddress = 0xffff;
constexpr std::uint64_t offer_of(int registration, std::uint64_t offset) {
  return static_cast<std::uint64_t>(registration + 1) << kOfferBits | offset;
}
constexpr std::uint64_t offer_of_address(std::uint64_t address) {
  return kOfferAddress << kOfferBits | address;
}

// The device's view of the mapped buffers.
struct IpcTable {
  // [peer][registration]: where the peer's buffer is mapped here; 0: it is not.
  const std::uint64_t* bases = nullptr;
  const std::uint32_t* aborted = nullptr;  // not 0: offers are void, and kernels do nothing
};

struct IpcPull {
  const std::uint64_t* offer = nullptr;
  int peer = 0;
  void* target = nullptr;
  std::size_t bytes = 0;
};

// Pulls from several peers at once.
struct IpcPulls {
  IpcTable table;
  int count = 0;
  IpcPull pulls[kMaxIpcRanks];
};

// Computes target = the ranks' elements combined in the order of ranks, divided by `divisor` at the
// end. The arithmetic is that of reduce_kernels.h. `own` may be `target`. Where only two of many
// ranks take part, they are numbers 0 and 1, and `table` begins with the peer's row.
struct IpcReduction {
  IpcTable table;
  const std::uint64_t* offers = nullptr;  // rank 0's; the others' follow
  int offer_stride = 0;                   // at this distance
  int rank = 0, size = 1;
  const void* own = nullptr;
  void* target = nullptr;
  std::size_t count = 0;
  DataType type = DataType::fp32;
  ReduceOp op = ReduceOp::sum;  // an average is a sum with a divisor
  int divisor = 1;
};

cudaError_t launch_pulls(const IpcPulls& pulls, cudaStream_t stream);
cudaError_t launch_reduction(const IpcReduction& reduction, cudaStream_t stream);

}  // namespace ddpbench::comm
