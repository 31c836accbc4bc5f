// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HierarchicalEngine: carries out one rank's all-reduces over two communicators, one of its host
// and one of the first ranks of all hosts.
#include "parallel/comm/comm_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "parallel/comm/library/library_engine.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::comm {

namespace {

// While one part crosses the wire, the next is reduced. At 1 Gbit/s a part takes 8 ms there, and a
// tenth of one in shared memory.
constexpr std::size_t kPartBytes = kMiB;

constexpr CallOptions kHere{.after = nullptr, .start = Start::deferred};

Elements part_of(const Elements& whole, std::size_t part) {
  const std::size_t each = kPartBytes / size_of(whole.type), first = part * each;
  auto* const data = static_cast<std::byte*>(whole.data) + first * size_of(whole.type);
  return {data, std::min(each, whole.count - first), whole.type};
}

class HierarchicalEngine final : public LibraryEngine {
 public:
  // `world`: all ranks; it outlives this, and hears of aborts. `host`: the ranks of this host.
  // `across`: the first ranks of all hosts; null on other ranks, and where there is one host.
  HierarchicalEngine(Communicator& world, std::unique_ptr<Communicator> host,
                     std::unique_ptr<Communicator> across)
      : LibraryEngine(world.rank(), world.size()),
        world_(world),
        host_(std::move(host)),
        across_(std::move(across)) {}

  Communicator& host() noexcept { return *host_; }
  bool is_one_host() const { return host_->size() == size(); }
  std::string prefix(const Operation* operation) const override {
    return fmt::format("rank {} of {}{}: {}", rank(), size(),
                       is_one_host() ? "" : " (below, ranks count within a host, or the hosts)",
                       operation ? describe(*operation) + ": " : "");
  }

 private:
  void run(const Operation& operation, Deadline deadline, Waiter waiter) override;
  std::unique_ptr<Transfer> start(const Operation& operation) override {
    throw InternalError("a hierarchical engine got a message: " + describe(operation));
  }
  bool averages() const noexcept override { return true; }
  void give_up(const std::string& reason) noexcept override {
    world_.abort(reason);  // ranks of other hosts wait for those that wait for the failed one
    host_->abort(reason);
    if (across_) across_->abort(reason);
  }

  Communicator& world_;
  const std::unique_ptr<Communicator> host_, across_;
  std::vector<Work> crossed_;  // [part]; kept, so that a step allocates nothing
};

// All ranks of a host reduce all parts first and broadcast them then, so their order is one. This
// thread does both, while a thread of `across_` has earlier parts cross. A single part has nothing
// to run beside, so this thread does that, too, which spares the hand-over.
void HierarchicalEngine::run(const Operation& operation, Deadline deadline, Waiter) {
  ensure(operation.kind == OperationKind::all_reduce, "a hierarchical engine got another call");
  const Elements& whole = operation.in;
  if (is_one_host()) return host_->all_reduce(whole, operation.op, kHere).synchronize(deadline);
  const std::size_t parts = ceil_div(whole.bytes(), kPartBytes);
  const bool averages = operation.op == ReduceOp::average;
  const ReduceOp op = averages ? ReduceOp::sum : operation.op;
  const CallOptions beside{.after = nullptr, .start = parts > 1 ? Start::now : Start::deferred};
  crossed_.clear();
  for (std::size_t part = 0; part < parts; ++part) {
    const Elements elements = part_of(whole, part);
    host_->reduce(elements, op, 0, kHere).synchronize(deadline);
    if (across_) crossed_.push_back(across_->all_reduce(elements, op, beside));
  }
  for (std::size_t part = 0; part < parts; ++part) {
    const Elements elements = part_of(whole, part);
    if (across_) crossed_[part].synchronize(deadline);
    if (across_ && averages) divide_sum(elements, size());
    host_->broadcast(elements, 0, kHere).synchronize(deadline);
  }
}

// All-reduces are queued here, everything else by the engine's communicator. The two queues may
// run side by side: they use communicators of their own. Both tell the watch their calls; it counts
// them alike on all ranks where these await the one kind before they begin the other.
class HierarchicalCommunicator final : public QueuedCommunicator {
 public:
  // `world`, `host` and `across`: as of the engine.
  HierarchicalCommunicator(std::unique_ptr<Communicator> world, std::unique_ptr<Communicator> host,
                           std::unique_ptr<Communicator> across, const WorldOptions& options)
      : QueuedCommunicator(
            "shm+" + world->backend(), world->rank(), world->size(),
            std::make_unique<HierarchicalEngine>(*world, std::move(host), std::move(across)),
            options),
        world_(std::move(world)) {}

  // On one host; the engine's own algorithm between hosts is told by the table of backends.
  std::vector<AllReduceAlgorithm> all_reduces_run() const override {
    return hierarchy().is_one_host() ? hierarchy().host().all_reduces_run()
                                     : std::vector<AllReduceAlgorithm>{};
  }
  void group_start() override {
    world_->group_start();
    QueuedCommunicator::group_start();
  }
  void group_end() override {
    world_->group_end();
    QueuedCommunicator::group_end();
  }
  void wait_until(PredicateRef done) override { world_->wait_until(done); }  // it has all messages
  void register_buffer(const Buffer& buffer) override {
    world_->register_buffer(buffer);
    executor().while_idle([&] { hierarchy().host().register_buffer(buffer); });
  }
  void deregister_buffer(const Buffer& buffer) override {
    world_->deregister_buffer(buffer);
    executor().while_idle([&] { hierarchy().host().deregister_buffer(buffer); });
  }
  void check() override {
    world_->check();
    QueuedCommunicator::check();
  }

 private:
  HierarchicalEngine& hierarchy() const { return static_cast<HierarchicalEngine&>(engine()); }
  Work issue(const Operation& operation, const CallOptions& options) override {
    if (operation.kind != OperationKind::all_reduce) return world_->issue(operation, options);
    return QueuedCommunicator::issue(operation, options);
  }

  const std::unique_ptr<Communicator> world_;
};

}  // namespace

// Those of the ranks that count form two further worlds, in the order of ranks: those of one host,
// and the first of each host.
std::unique_ptr<Communicator> make_hierarchical(const CommModule& engine, Store& store, int rank,
                                                int size, const std::string& host,
                                                const WorldOptions& options) {
  auto world = engine.make(store, rank, size, options);  // says which rank does not come
  const auto key = [&](int of) { return fmt::format("{}/host-of/{}", options.name, of); };
  store.set(key(rank), host);
  std::vector<std::string> hosts;
  std::vector<int> mates, leaders;
  for (int peer = 0; peer < size; ++peer) {
    hosts.push_back(store.get(key(peer), options.timeout_s));
    if (hosts.back() == host) mates.push_back(peer);
    if (std::ranges::count(hosts, hosts.back()) == 1) leaders.push_back(peer);
  }
  const auto place_in = [rank](const std::vector<int>& ranks) {
    return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  };
  WorldOptions parts = options;
  parts.progress = {};
  parts.watch = nullptr;
  parts.name = fmt::format("{}/host-from/{}", options.name, mates.front());
  auto own = make_shm(store, place_in(mates), static_cast<int>(mates.size()), parts);
  std::unique_ptr<Communicator> across;
  if (mates.front() == rank && leaders.size() > 1) {
    parts.name = options.name + "/across";
    parts.members = leaders;
    across = engine.make(store, place_in(leaders), static_cast<int>(leaders.size()), parts);
  }
  return std::make_unique<HierarchicalCommunicator>(std::move(world), std::move(own),
                                                    std::move(across), options);
}

}  // namespace ddpbench::comm
