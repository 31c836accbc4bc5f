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
  // Collective. The calling thread leads the device. `bytes` of the largest call's whole;
  // `sharers`: ranks whose memory is that of this device. Throws ConfigError, before it allocates,
  // when they need more than the device has free, with a table and what to change.
  CollectiveRank(std::unique_ptr<comm::Communicator> world, std::unique_ptr<Device> device,
                 std::size_t bytes, int sharers = 1);

  comm::Communicator& world() { return *world_; }
  Device& device() { return *device_; }
  // Timed calls on memory().
  CallQueue& calls() { return *calls_; }
  // Bytes of the memory that memory() is of, to send from and to receive into each.
  std::size_t room() const { return in_.bytes(); }
  CollectiveMemory memory(std::size_t count, DataType type, comm::ReduceOp op) const;

  // Blocks until all ranks have come.
  void barrier();
  // The collective once, from a barrier on. REQUIRES: no calls are under way.
  CallSpan run(const CollectiveCase& collective, const CollectiveMemory& memory);
  // The collective once on fresh input; wrong elements of this rank. Leaves zeros behind, whose
  // sums stay zeros however often they are added. REQUIRES: no calls are under way.
  std::size_t verify(const CollectiveCase& collective, const CollectiveMemory& memory);

 private:
  // What the copies that keep the device busy may take: bytes of one of their buffers; 0: there are
  // none.
  std::size_t check_memory(std::size_t room, int sharers);
  // What make_buffers() allocates, beside what keeps the device busy.
  std::array<PlannedBuffer, 2> planned_buffers(std::size_t room);
  void make_buffers(std::size_t room, std::size_t most_busy_bytes);
  // Calls `use` with each piece of a host's copy of the device's `count` elements, and the number
  // of its first element; before that it is read, after that it is written.
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
