// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a measurement of collectives: its communicator, its device, and registered memory to
// send from and to receive into.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/comm/collective_case.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

class CollectiveRank {
 public:
  // When a call began and ended on this rank, in the device's clock.
  struct Span {
    double begin_s = 0, end_s = 0;
  };

  // Collective. Binds the calling thread to the device. `bytes` of the largest call's whole.
  CollectiveRank(std::unique_ptr<comm::Communicator> world, std::unique_ptr<Device> device,
                 std::size_t bytes);

  comm::Communicator& world() { return *world_; }
  Device& device() { return *device_; }
  CollectiveMemory memory(std::size_t count, DataType type, comm::ReduceOp op) const;

  void barrier();
  // The collective once, from a barrier on.
  Span run(const CollectiveCase& collective, const CollectiveMemory& memory);
  // The collective once on fresh input; wrong elements of this rank. Leaves zeros behind, whose
  // sums stay zeros however often they are added.
  std::size_t verify(const CollectiveCase& collective, const CollectiveMemory& memory);

 private:
  std::unique_ptr<Device> device_;
  Buffer in_, out_;  // outlive the communicator
  std::unique_ptr<comm::Communicator> world_;
};

}  // namespace ddpbench::bench
