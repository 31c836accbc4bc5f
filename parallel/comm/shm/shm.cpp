// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ShmEngine: carries out one rank's operations in shared memory.
#include "base/ranges.h"
#include "parallel/comm/comm_module.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/queue/engine.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/shm/collectives/collective.h"
#include "parallel/comm/shm/collectives/collectives.h"
#include "parallel/comm/shm/emulated_link.h"
#include "parallel/comm/shm/message_transfers.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {

namespace {

// Measured (`ddpbench comm`): with a core a rank, a caller that spins some microseconds beats one
// that yields. When oversubscribed, a spinning rank only delays the peer that it waits for. The
// communication thread usually shares its core with the rank's computing thread. It gives the core
// back at once, and is woken faster than a yielding thread would get its next turn. Over an
// emulated link waits are long, and the core is for what computes meanwhile.
WaitPolicy policy_of(Waiter waiter, int ranks, const Link& link) {
  if (link.bytes_per_s > 0) return {};
  const bool calls = waiter == Waiter::caller;
  const bool core_each = ranks <= ::sysconf(_SC_NPROCESSORS_ONLN);
  return {!core_each ? 20 : calls ? 2000 : 500, calls ? 2e-3 : 0};
}

void run_alone(const Operation& operation) {
  if (operation.out.data != operation.in.data && operation.out.bytes() > 0) {
    std::memcpy(operation.out.data, operation.in.data, operation.out.bytes());
  }
}

class ShmEngine final : public Engine {
 public:
  // This rank's end of `block`.
  ShmEngine(const std::shared_ptr<ControlBlock>& block, int rank, const WorldOptions& options)
      : all_reduce_(options.all_reduce),
        peers_(block, rank),
        memory_(rank, block->scope(), peers_.own()),
        traffic_(static_cast<std::size_t>(block->size())),
        link_(peers_, options.link),
        messages_(peers_, memory_, tuners_, traffic_, link_),
        caller_policy_(policy_of(Waiter::caller, block->size(), options.link)),
        thread_policy_(policy_of(Waiter::communication_thread, block->size(), options.link)),
        sources_(static_cast<std::size_t>(block->size())) {
    peers_.set_background(&messages_);
  }

  PeerGroup& peers() noexcept { return peers_; }
  // May be changed only while no thread executes.
  PeerMemory& memory() noexcept { return memory_; }
  // Only while no thread executes.
  std::vector<PeerTraffic> take_traffic() {
    std::vector<PeerTraffic> taken = traffic_;
    std::ranges::fill(traffic_, PeerTraffic{});
    return taken;
  }

  // The algorithms that all-reduces of registered memory have run so far.
  std::vector<AllReduceAlgorithm> all_reduces_run() const {
    std::vector<AllReduceAlgorithm> run;
    for (const AllReduceAlgorithm one : {AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
      if (algorithms_run_.load(std::memory_order_relaxed) >> static_cast<unsigned>(one) & 1) {
        run.push_back(one);
      }
    }
    return run;
  }

  WorkTimes run_collective(const Operation& operation, Deadline deadline, Waiter waiter) override {
    const WaitPolicy& policy = waiter == Waiter::caller ? caller_policy_ : thread_policy_;
    Collective collective(peers_, memory_, operation,
                          {++collectives_, deadline, policy, sources_, &tuners_, traffic_});
    const AllReduceAlgorithm ran = run(collective);
    if (link_.is_given()) {
      const double end_s = link_.end_s(operation, ran, collective.arrived_s());
      peers_.wait(peers_.rank(), {&operation, collectives_, deadline, end_s}, policy,
                  [&] { return steady_s() >= end_s; });
    }
    return {collective.started_s(), collective.arrived_s(), 0, true};
  }

  void start_message(std::shared_ptr<QueuedWork> work) override {
    messages_.start(std::move(work));
  }

  void await(const Operation* operation, Deadline deadline, Waiter waiter,
             PredicateRef done) override {
    const WaitPolicy& policy = waiter == Waiter::caller ? caller_policy_ : thread_policy_;
    const int peer = operation ? operation->root : PeerGroup::kAnybody;
    peers_.wait(peer, {operation, 0, deadline}, policy, [&] {
      messages_.advance();
      return done();
    });
  }

  void drop_messages() noexcept override { messages_.drop_all(); }

  void wake_waiter() noexcept override { peers_.wake_own_waiter(); }
  void abort(const std::string& reason) noexcept override { peers_.abort(reason); }
  void throw_if_aborted(const Operation* operation) const override {
    if (peers_.aborted()) peers_.throw_aborted(operation);
  }
  void check() override { peers_.check_all(); }
  void stop() noexcept override { peers_.stop(); }
  void leave() noexcept override { peers_.leave(); }
  std::string prefix(const Operation* operation) const override { return peers_.prefix(operation); }

 private:
  // Returns the algorithm of an all-reduce.
  AllReduceAlgorithm run(Collective& c) {
    const Operation& o = c.operation();
    if (c.size() > 1 && o.kind == OperationKind::all_reduce) {
      const AllReduceAlgorithm algorithm = run_all_reduce(c, all_reduce_);
      const bool registered = c.is_mapped(o.in);
      if (registered) algorithms_run_.fetch_or(1U << static_cast<unsigned>(algorithm));
      return algorithm;
    }
    c.size() == 1 ? run_alone(o) : is_small(o, c.size()) ? run_small(c) : run_large(c);
    return AllReduceAlgorithm::automatic;
  }

  const AllReduceAlgorithm all_reduce_;
  PeerGroup peers_;
  PeerMemory memory_;
  WriteTuners tuners_;
  std::vector<PeerTraffic> traffic_;  // [size]
  EmulatedLink link_;
  MessageTransfers messages_;
  const WaitPolicy caller_policy_, thread_policy_;
  std::vector<const std::byte*> sources_;     // scratch of collectives, [size]
  std::uint64_t collectives_ = 0;             // number run; equal on all ranks
  std::atomic<unsigned> algorithms_run_ = 0;  // bits, by the enumerators' numbers
};

class ShmCommunicator final : public QueuedCommunicator {
 public:
  // This rank's end of `block`.
  ShmCommunicator(const std::shared_ptr<ControlBlock>& block, int rank, const WorldOptions& options)
      : QueuedCommunicator("shm", rank, block->size(),
                           std::make_unique<ShmEngine>(block, rank, options), options) {}
  // Waits until all ranks have come (CommTimeout). To be called once, before anything else.
  void await_peers() { shm().peers().await_attached(timeout_s()); }

  std::vector<AllReduceAlgorithm> all_reduces_run() const override {
    return shm().all_reduces_run();
  }

  std::vector<PeerTraffic> take_traffic() override {
    std::vector<PeerTraffic> taken;
    executor().while_idle([&] { taken = shm().take_traffic(); });
    return taken;
  }

  void register_buffer(const Buffer& buffer) override {
    if (shm().peers().block().scope() == FutexScope::process) return;  // all is readable
    const std::string handle = buffer.export_handle();
    ensure(buffer.bytes() == 0 || !handle.empty(),
           "a buffer of {} bytes that peers cannot map was to be registered", buffer.bytes());
    executor().while_idle([&] { shm().memory().add(buffer.view(), handle); });
  }

  void deregister_buffer(const Buffer& buffer) override {
    if (shm().peers().block().scope() == FutexScope::process) return;
    executor().while_idle([&] { shm().memory().remove(buffer.view()); });
  }

 private:
  ShmEngine& shm() const { return static_cast<ShmEngine&>(engine()); }
};

}  // namespace

AllReduceAlgorithm automatic_shm_all_reduce(int ranks, std::size_t bytes) {
  return is_small(OperationKind::all_reduce, bytes, ranks) ? AllReduceAlgorithm::direct
                                                           : automatic_all_reduce(ranks);
}

// How processes of one host meet: rank 0 makes the control block and publishes its handle in the
// store, beside a mark of its host and PID namespace; the others open it.
std::unique_ptr<Communicator> make_shm(Store& store, int rank, int size,
                                       const WorldOptions& options) {
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
          "rank {} of {} is on another host, or in another PID namespace, than rank 0; the shm "
          "backend connects processes of one host",
          rank, size));
    }
    block = ControlBlock::open(published.substr(newline + 1), size);
  }
  auto communicator = std::make_unique<ShmCommunicator>(std::move(block), rank, options);
  communicator->await_peers();
  return communicator;
}

// The threads of one process share a control block, and every address is readable.
std::vector<std::unique_ptr<Communicator>> make_thread_shm(int size, const WorldOptions& options) {
  ensure(size >= 1, "a communicator of {} threads", size);
  const auto block = ControlBlock::create(options.name, size, FutexScope::process);
  return mapped(std::views::iota(0, size), [&](int rank) -> std::unique_ptr<Communicator> {
    return std::make_unique<ShmCommunicator>(block, rank, options);
  });
}

}  // namespace ddpbench::comm
