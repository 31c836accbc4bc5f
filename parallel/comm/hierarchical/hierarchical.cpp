// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/hierarchical/hierarchical.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/hierarchical/hierarchical_engine.h"
#include "parallel/comm/operation_communicator.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/shm/shm.h"

namespace ddpbench::comm {

namespace {

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
    executor_ = std::make_shared<Executor>(
        std::move(engine),
        ExecutorOptions{options.timeout_s, options.thread_cores, options.progress, options.watch});
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

ShmOptions host_options(const EngineOptions& options) {
  ShmOptions shm;
  shm.timeout_s = options.timeout_s;
  shm.thread_cores = options.thread_cores;
  shm.check = options.check;
  return shm;
}

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
  ShmOptions shm = host_options(options);
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
