// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HierarchicalEngine: carries out one rank's all-reduces over two communicators, one of its host
// and one of the first ranks of all hosts.
#include "parallel/comm/hierarchical/hierarchical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/queue/engine.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/shm/shm.h"

namespace ddpbench::comm {

namespace {

class HierarchicalEngine final : public Engine {
 public:
  // `world`: all ranks; it outlives this, and hears of aborts. `host`: the ranks of this host.
  // `across`: the first ranks of all hosts; null on other ranks.
  HierarchicalEngine(Communicator& world, std::unique_ptr<Communicator> host,
                     std::unique_ptr<Communicator> across);

  Communicator& host() noexcept { return *host_; }
  bool is_one_host() const { return host_->size() == world_.size(); }

  // REQUIRES: an all-reduce.
  WorkTimes run_collective(const Operation& operation, Deadline deadline, Waiter waiter) override;

  // It never gets messages.
  void start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) override;
  void advance_messages() override {}
  void await(const Operation* operation, Deadline deadline, Waiter waiter,
             PredicateRef done) override;
  std::optional<Deadline> earliest_message_deadline() const override { return std::nullopt; }
  std::vector<std::shared_ptr<QueuedWork>> take_messages() override { return {}; }

  void wake_waiter() noexcept override {}
  void abort(const std::string& reason) noexcept override;
  void throw_if_aborted(const Operation* operation) const override;
  void stop() noexcept override;
  void leave() noexcept override {}
  std::string prefix(const Operation* operation) const override;

 private:
  void all_reduce_in_parts(const Operation& operation, Deadline deadline);

  Communicator& world_;
  const std::unique_ptr<Communicator> host_, across_;
  std::atomic<bool> running_ = false;
  mutable std::mutex mutex_;
  std::optional<std::string> aborted_;
  std::vector<Work> crossed_;  // [part]; kept, so that a step allocates nothing
};

// While one part crosses the wire, the next is reduced. At 1 Gbit/s a part takes 8 ms there, and a
// tenth of one in shared memory.
constexpr std::size_t kPartBytes = kMiB;

constexpr auto kAwaitLook = std::chrono::milliseconds(1);

constexpr CallOptions kHere{.after = nullptr, .start = Start::deferred};

Elements part_of(const Elements& whole, std::size_t part) {
  const std::size_t each = kPartBytes / size_of(whole.type), first = part * each;
  auto* const data = static_cast<std::byte*>(whole.data) + first * size_of(whole.type);
  return {data, std::min(each, whole.count - first), whole.type};
}

std::size_t parts_of(const Elements& whole) {
  return (whole.bytes() + kPartBytes - 1) / kPartBytes;
}

// Says while it lives that a call is under way.
class Running {
 public:
  explicit Running(std::atomic<bool>& flag) : flag_(flag) { flag_.store(true); }
  ~Running() { flag_.store(false); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<bool>& flag_;
};

HierarchicalEngine::HierarchicalEngine(Communicator& world, std::unique_ptr<Communicator> host,
                                       std::unique_ptr<Communicator> across)
    : world_(world), host_(std::move(host)), across_(std::move(across)) {}

WorkTimes HierarchicalEngine::run_collective(const Operation& operation, Deadline deadline,
                                             Waiter) {
  ensure(operation.kind == OperationKind::all_reduce, "a hierarchical engine got another call");
  const double start_s = steady_s();
  const Running running(running_);
  try {
    throw_if_aborted(&operation);
    if (is_one_host()) {
      host_->all_reduce(operation.in, operation.op, kHere).synchronize(deadline);
    } else {
      all_reduce_in_parts(operation, deadline);
    }
  } catch (const CommTimeout& timeout) {
    const std::string reason = prefix(&operation) + timeout.what();
    abort(reason);
    throw CommTimeout(reason, operation_name(&operation));
  } catch (const CommError& error) {
    const std::string reason = prefix(&operation) + error.what();
    abort(reason);  // ranks of other hosts wait for those that wait for the failed one
    throw CommError(reason, operation_name(&operation));
  }
  return {start_s, start_s, 0, false};
}

// All ranks of a host reduce all parts first and broadcast them then, so their order is one. This
// thread does both, while a thread of `across_` has earlier parts cross. A single part has nothing
// to run beside, so this thread does that, too, which spares the hand-over.
void HierarchicalEngine::all_reduce_in_parts(const Operation& operation, Deadline deadline) {
  const Elements& whole = operation.in;
  const std::size_t parts = parts_of(whole);
  const ReduceOp op = operation.op == ReduceOp::average ? ReduceOp::sum : operation.op;
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
    if (across_ && operation.op == ReduceOp::average) {
      const std::array<const std::byte*, 1> source = {static_cast<std::byte*>(elements.data)};
      reduce_sources(elements.data, source, elements.count,
                     {elements.type, ReduceOp::average, world_.size()});
    }
    host_->broadcast(elements, 0, kHere).synchronize(deadline);
  }
}

void HierarchicalEngine::start_message(std::shared_ptr<QueuedWork>, Deadline) {
  throw InternalError("a hierarchical engine got a message");
}

// Without messages there is nothing to move meanwhile. A planted delay waits here.
void HierarchicalEngine::await(const Operation* operation, Deadline deadline, Waiter,
                               PredicateRef done) {
  while (!done() && !has_passed(deadline)) {
    throw_if_aborted(operation);
    std::this_thread::sleep_for(kAwaitLook);
  }
}

void HierarchicalEngine::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = reason;
  }
  world_.abort(reason);
  host_->abort(reason);
  if (across_) across_->abort(reason);
}

void HierarchicalEngine::throw_if_aborted(const Operation* operation) const {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw CommError(*aborted_, operation_name(operation));
}

void HierarchicalEngine::stop() noexcept {
  if (running_.load()) abort(prefix(nullptr) + "the communicator was destroyed meanwhile");
}

std::string HierarchicalEngine::prefix(const Operation* operation) const {
  return fmt::format("rank {} of {}{}: {}", world_.rank(), world_.size(),
                     is_one_host() ? "" : " (below, ranks count within a host, or the hosts)",
                     operation ? describe(*operation) + ": " : "");
}

// All-reduces are queued here, everything else by the engine's communicator. The two queues may
// run side by side: they use communicators of their own. Both tell the watch their calls; it counts
// them alike on all ranks where these await the one kind before they begin the other.
class HierarchicalCommunicator final : public OperationCommunicator {
 public:
  // Collective over `world`. `host`: the ranks of it that are on this host, in the same order.
  HierarchicalCommunicator(std::string backend, std::unique_ptr<Communicator> world,
                           std::unique_ptr<Communicator> host, const EngineOptions& options)
      : OperationCommunicator(world->rank(), world->size()),
        backend_(std::move(backend)),
        options_(options),
        world_(std::move(world)) {
    auto across = world_->split(host->rank() == 0 ? 0 : -1, 0);
    auto engine = std::make_unique<HierarchicalEngine>(*world_, std::move(host), std::move(across));
    engine_ = engine.get();
    executor_ = std::make_shared<Executor>(std::move(engine), options);
  }
  ~HierarchicalCommunicator() override { executor_->shut_down(); }

  std::string backend() const override { return backend_; }
  double timeout_s() const noexcept override { return options_.timeout_s; }
  // On one host; the engine's own algorithm between hosts is told by the table of backends.
  std::vector<AllReduceAlgorithm> all_reduces_run() const override {
    return engine_->is_one_host() ? engine_->host().all_reduces_run()
                                  : std::vector<AllReduceAlgorithm>{};
  }
  void group_start() override {
    world_->group_start();
    executor_->group_start();
  }
  void group_end() override {
    world_->group_end();
    executor_->group_end();
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> world = world_->split(color, key);
    std::unique_ptr<Communicator> host = engine_->host().split(color, key);
    if (!world) return nullptr;
    EngineOptions options = options_;
    options.watch = nullptr;
    return std::make_unique<HierarchicalCommunicator>(backend_, std::move(world), std::move(host),
                                                      options);
  }
  void register_buffer(const Buffer& buffer) override {
    world_->register_buffer(buffer);
    executor_->while_idle([&] { engine_->host().register_buffer(buffer); });
  }
  void deregister_buffer(const Buffer& buffer) override {
    world_->deregister_buffer(buffer);
    executor_->while_idle([&] { engine_->host().deregister_buffer(buffer); });
  }
  void abort(const std::string& reason) noexcept override { executor_->abort(reason); }
  void check() override {
    world_->check();
    engine_->throw_if_aborted(nullptr);
  }

 private:
  Work issue(const Operation& operation, const CallOptions& options) override {
    if (operation.kind != OperationKind::all_reduce) return call(*world_, operation, options);
    ensure(!options.after || options.after->device().kind() == DeviceKind::cpu,
           "the backend {} runs after streams of CPU devices", backend_);
    return Work(executor_->issue(operation, options.start));
  }
  const std::string backend_;
  const EngineOptions options_;
  const std::unique_ptr<Communicator> world_;
  HierarchicalEngine* engine_ = nullptr;  // owned by the executor
  std::shared_ptr<Executor> executor_;    // works in flight own it, too
};

// The communicator of the ranks that have the same `host`.
std::unique_ptr<Communicator> connect_host(Store& store, int rank, int size,
                                           const std::string& host, const EngineOptions& options) {
  const auto key = [&](int of) { return fmt::format("{}/host-of/{}", options.name, of); };
  store.set(key(rank), host);
  int first = -1, place = 0, count = 0;
  for (int peer = 0; peer < size; ++peer) {
    if (store.get(key(peer), options.timeout_s) != host) continue;
    if (first < 0) first = peer;
    if (peer < rank) ++place;
    ++count;
  }
  ShmOptions shm{options};
  shm.progress = {};
  shm.watch = nullptr;
  shm.name = fmt::format("{}/host-from/{}", options.name, first);
  return make_shm(store, place, count, shm);
}

}  // namespace

std::unique_ptr<Communicator> make_hierarchical(const std::string& backend, Store& store, int rank,
                                                int size, const std::string& host,
                                                const MakeEngine& make_engine,
                                                const EngineOptions& options) {
  auto world = make_engine(store, rank, size, options);  // says which rank does not come
  auto own = connect_host(store, rank, size, host, options);
  return std::make_unique<HierarchicalCommunicator>(backend, std::move(world), std::move(own),
                                                    options);
}

}  // namespace ddpbench::comm
