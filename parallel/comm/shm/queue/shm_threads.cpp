// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicators for threads of one process: the same control block, and every address readable.
#include "base/error.h"
#include "parallel/comm/shm/queue/shm.h"
#include "parallel/comm/shm/queue/shm_communicator.h"

namespace ddpbench::comm {

std::vector<std::unique_ptr<Communicator>> make_thread_ring(int size, const RingOptions& options) {
  ensure(size >= 1, "a communicator of {} threads", size);
  const auto block = ControlBlock::create(options.name, size, FutexScope::process);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<RingCommunicator>(block, rank, options));
  }
  return communicators;
}

}  // namespace ddpbench::comm
