// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How processes of one host meet: rank 0 makes the control block and publishes its handle in the
// store, beside a mark of its host and PID namespace; the others open it.
#include "base/error.h"
#include "parallel/comm/shm/host_mark.h"
#include "parallel/comm/shm/queue/shm.h"
#include "parallel/comm/shm/queue/shm_communicator.h"

namespace ddpbench::comm {

std::unique_ptr<Communicator> make_ring(Store& store, int rank, int size,
                                        const RingOptions& options) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  const std::string key = options.name + "/control";
  std::shared_ptr<ControlBlock> block;
  if (rank == 0) {
    block = ControlBlock::create(options.name, size, FutexScope::host);
    if (size > 1) store.set(key, host_mark() + "\n" + block->handle());
  } else {
    const std::string published = store.get(key, options.timeout_s);
    const std::size_t newline = published.find('\n');
    if (newline == std::string::npos || published.substr(0, newline) != host_mark()) {
      throw CommError(fmt::format(
          "rank {} of {} is on another host, or in another PID namespace, than rank 0; the ring "
          "backend connects processes of one host",
          rank, size));
    }
    block = ControlBlock::open(published.substr(newline + 1), size);
  }
  auto communicator = std::make_unique<RingCommunicator>(std::move(block), rank, options);
  communicator->await_peers();
  return communicator;
}

}  // namespace ddpbench::comm
