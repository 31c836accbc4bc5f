// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a measurement of collectives: its communicator, its device, and registered memory to
// send from and to receive into.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "bench/comm/call_queue.h"
#include "bench/comm/collective_case.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

class CollectiveRank {
 public:
  // Collective. The calling thread leads the device. `bytes`: those of the largest call's whole.
  // `sharers`: the ranks that share this device's memory. Throws ConfigError before it allocates
  // when they need more memory than the device has free, with a table and advice.
  CollectiveRank(std::unique_ptr<comm::Communicator> world, std::unique_ptr<Device> device,
                 std::size_t bytes, int sharers = 1);

  comm::Communicator& world() { return *world_; }
  Device& device() { return *device_; }
  // Timed calls on memory().
  CallQueue& calls() { return *calls_; }
  // The bytes of each of the two buffers, to send from and to receive into, behind memory().
  std::size_t room() const { return in_.bytes(); }
  CollectiveMemory memory(std::size_t count, DataType type, comm::ReduceOp op) const;

  // Blocks until all ranks have come.
  void barrier();
  // Runs the collective once, after a barrier. REQUIRES: no calls are in flight.
  CallSpan run(const CollectiveCase& collective, const CollectiveMemory& memory);
  // Runs the collective once on fresh input; returns the wrong elements of this rank. Leaves zeros
  // behind: their sums stay zeros. REQUIRES: no calls are in flight.
  std::size_t verify(const CollectiveCase& collective, const CollectiveMemory& memory);

 private:
  // Returns how many bytes each buffer of the copies that keep the device busy may have; 0: there
  // are no copies.
  std::size_t check_memory(std::size_t room, int sharers);
  // What make_buffers() allocates, besides the buffers that keep the device busy.
  std::array<PlannedBuffer, 2> planned_buffers(std::size_t room);
  void make_buffers(std::size_t room, std::size_t most_blocking_bytes);
  // Calls `use` with each piece of a host copy of the device's `count` elements and the number of
  // its first element. `read` reads the piece from the device before, `write` writes it back after.
  enum class Access : std::uint8_t { read, write };
  template <typename Use>
  void visit(std::byte* data, std::size_t count, DataType type, Access access, Use&& use);

  std::unique_ptr<Device> device_;
  Buffer in_, out_;  // outlive the communicator
  std::unique_ptr<Stream> copies_;
  Buffer staging_;  // empty where the host reads the device's memory itself
  std::unique_ptr<comm::Communicator> world_;
  std::unique_ptr<CallQueue> calls_;
};

}  // namespace ddpbench::bench
