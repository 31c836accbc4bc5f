// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/shm_engine.h"

#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "parallel/comm/shm/collectives/collectives.h"

namespace ddpbench::comm {

namespace {

// Measured (`ddpbench comm`): with a core a rank, spinning some microseconds beats
// yielding. When oversubscribed, a spinning rank only delays the peer that it waits for.
WaitPolicy caller_policy(int ranks) {
  const bool core_each = ranks <= ::sysconf(_SC_NPROCESSORS_ONLN);
  return {core_each ? 2000 : 20, 2e-3};
}

// The communication thread usually shares its core with the rank's computing thread. It gives the
// core back at once, and is woken faster than a yielding thread would get its next turn.
WaitPolicy thread_policy(int ranks) {
  const bool core_each = ranks <= ::sysconf(_SC_NPROCESSORS_ONLN);
  return {core_each ? 500 : 20, 0};
}

void run_alone(const Operation& operation) {
  if (operation.out.data != operation.in.data && operation.out.bytes() > 0) {
    std::memcpy(operation.out.data, operation.in.data, operation.out.bytes());
  }
}

}  // namespace

ShmEngine::ShmEngine(const std::shared_ptr<ControlBlock>& block, int rank,
                     AllReduceAlgorithm all_reduce)
    : all_reduce_(all_reduce),
      peers_(block, rank),
      memory_(rank, block->scope()),
      taken_(static_cast<std::size_t>(block->size())),
      messages_(peers_, memory_, tuners_, taken_),
      caller_policy_(caller_policy(block->size())),
      thread_policy_(thread_policy(block->size())),
      sources_(static_cast<std::size_t>(block->size())) {
  peers_.set_background(&messages_);
}

std::vector<AllReduceAlgorithm> ShmEngine::all_reduces_run() const {
  std::vector<AllReduceAlgorithm> run;
  for (const AllReduceAlgorithm one : {AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
    if (algorithms_run_.load(std::memory_order_relaxed) >> static_cast<unsigned>(one) & 1) {
      run.push_back(one);
    }
  }
  return run;
}

WorkTimes ShmEngine::run_collective(const Operation& operation, Deadline deadline, Waiter waiter) {
  const WaitPolicy& policy = waiter == Waiter::caller ? caller_policy_ : thread_policy_;
  Collective collective(peers_, memory_, operation,
                        {++collectives_, deadline, policy, sources_, &tuners_, taken_});
  run(collective);
  return {collective.started_s(), collective.arrived_s(), 0, true};
}

void ShmEngine::run(Collective& c) {
  const Operation& o = c.operation();
  if (c.size() == 1) return run_alone(o);
  if (o.kind == OperationKind::all_reduce) {
    const AllReduceAlgorithm algorithm = run_all_reduce(c, all_reduce_);
    const bool registered = c.locate(o.in).buffer != MemoryLocation::kStaged;
    if (registered) algorithms_run_.fetch_or(1U << static_cast<unsigned>(algorithm));
    return;
  }
  if (is_small(o, c.size())) return run_small(c);
  switch (o.kind) {
    case OperationKind::reduce:
      return run_reduce(c);
    case OperationKind::reduce_scatter:
      return run_reduce_scatter(c);
    case OperationKind::all_gather:
      return run_all_gather(c);
    case OperationKind::broadcast:
      return run_broadcast(c);
    case OperationKind::scatter:
      return run_scatter(c);
    case OperationKind::gather:
      return run_gather(c);
    default:
      ensure(false, "no collective: {}", describe(o));
  }
}

void ShmEngine::start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) {
  messages_.start(std::move(work), deadline);
}

void ShmEngine::await(const Operation* operation, Deadline deadline, Waiter waiter,
                      PredicateRef done) {
  const WaitPolicy& policy = waiter == Waiter::caller ? caller_policy_ : thread_policy_;
  const int peer = operation ? operation->root : PeerGroup::kAnybody;
  peers_.wait(peer, {operation, 0, deadline}, policy, [&] {
    messages_.advance();
    return done();
  });
}

}  // namespace ddpbench::comm
