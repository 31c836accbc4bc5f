// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategy: one way of training a network on several devices.
//
// plan_strategy (strategies.h) says which ranks there are and what each is fed. A rank is a
// process, or a thread of one that several ranks share. Every rank makes its Strategy and calls
// setup once; workers call step for every batch, servers call serve. A strategy makes no thread and
// never sleeps: concurrent replicas run through ReplicaGroup, and blocking goes through Stream and
// Work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/nn/graph.h"
#include "kernels/nn/model/model.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "parallel/comm/communicator.h"
#include "parallel/state_parts.h"

namespace ddpbench {

class Replica;

enum class Role : std::uint8_t { worker, server };
enum class PsUpdate : std::uint8_t { server, worker };

// Faults that verification must catch. Only tests and --inject plant them.
struct PlantedFaults {
  int missing_bucket = -1;  // this bucket (or server shard) is never reduced
  bool sum_for_average = false;
  int stale_replica = -1;       // this replica keeps its old parameters ...
  std::int64_t stale_step = 0;  // ... in this step (counted from the last reset)

  bool is_stale(int replica, std::int64_t step) const {
    return replica == stale_replica && step == stale_step;
  }
  // By which an average is multiplied; not 1 where a sum takes its place.
  float gradient_factor(int replicas) const {
    return sum_for_average ? static_cast<float>(replicas) : 1.0F;
  }
};

struct StrategyConfig {
  std::string strategy;  // name of a row in strategies.cpp
  int replicas = 1;
  int servers = 0;                     // where the strategy has servers
  int devices_per_process = 1;         // where the strategy groups ranks; divides `replicas`
  std::int64_t per_device_batch = 64;  // samples of a pass
  int accumulation_steps = 1;          // passes of a step, whose gradients accumulate
  // pipeline: each replica's layers are on so many devices, cut behind the layers of these names
  // (none: balanced). Its passes are the micro-batches, in one of two orders (pipeline_stage.h).
  int stages = 1;
  std::vector<std::string> cuts;
  bool one_forward_one_backward = true;
  bool sync_every_pass = false;  // ddp: gradients are averaged after each pass, not the last
  std::uint64_t seed = 0;        // of what layers draw at random (dropout)
  ops::OptimizerOptions optimizer;
  bool scales_loss = false;  // as fp16 needs it (ops/loss_scale.h)
  bool overlap = true;       // reduce buckets, or push shards to servers, while backward runs
  // But in ps and localsgd: before each step all replicas take the state of the graph (running
  // statistics) of replica 0. False also where it has none, or sync_batch_norm keeps all equal to
  // the bit.
  bool broadcast_buffers = false;
  // Batch norm takes the statistics of the global batch. False also where the network has none.
  bool sync_batch_norm = false;
  std::size_t first_bucket_bytes = kMiB;
  std::size_t bucket_cap_bytes = 25 * kMiB;
  bool is_saved = false;           // all weights are read at some time
  std::size_t unit_bytes = 0;      // of zero3; 0: chosen by the network
  std::string comm_hook = "none";  // ddp: how buckets are encoded (comm_hook.h)
  PsUpdate ps_update = PsUpdate::server;
  int sync_every = 1;  // localsgd: steps of a cycle, which ends with the mean of the weights ...
  double outer_lr = 1, outer_momentum = 0;  // ... or with an update by how far it is off
  // ps: servers apply each push as it comes, and a worker so many steps ahead of the slowest waits.
  // 0: servers are synchronous.
  int max_staleness = 0;
  // ps: synchronous servers take the gradients of the first workers of a step, and drop so many.
  int backup_workers = 0;
  // ps: the option by which a server serves each worker as it comes, which makes the result
  // approximate; null: it serves all together.
  const char* serves_one_by_one() const {
    return max_staleness > 0    ? "--ps-mode=async"
           : backup_workers > 0 ? "--backup-workers"
                                : nullptr;
  }
  // ps: how often a server receives gradients in a step.
  std::uint32_t server_rounds() const {
    return serves_one_by_one() ? static_cast<std::uint32_t>(replicas) : 1;
  }
  bool is_verified = false;  // fetch_gradients() is called, which may take memory
  PlantedFaults faults;
};

// What one rank of the job does.
struct RankPlan {
  Role role = Role::worker;
  std::vector<int> replicas;  // indices of the replicas (devices) it drives; servers: empty
  std::vector<int> shards;    // sampler shards that make up its batch, in this order
  std::int64_t batch = 0;     // samples of a pass, on the device of replicas[0]
  int stage = 0;        // pipeline: which part of the layers of shards[0]'s replica it has ...
  bool is_last = true;  // ... and whether that is the last one, which has the loss
};

struct StrategyPlan {
  std::vector<RankPlan> ranks;  // workers, then servers
  // Rank r is of process r / ranks_per_process, beside the others of that process: each has a
  // thread of its own.
  int ranks_per_process = 1;
  std::int64_t global_batch = 0;
};

// How `reference` lets its rounding be measured: each step begins with the gradients of loss_factor
// times the loss, which leave no trace but in the totals of the loss.
struct RoundingProbe {
  double loss_factor = 1;
  std::function<void()> computed;  // called when they are there (queued); empty: no probes
};

// What a server did since the last reset, where it serves its workers one by one.
struct ServedPushes {
  std::int64_t updates = 0, dropped = 0;
  // The pushes by their staleness: the updates by others since their weights were pulled.
  std::map<std::int64_t, std::int64_t> staleness;
};

// Runs one function on the leading threads of several devices of this process at the same time.
class ReplicaGroup {
 public:
  virtual ~ReplicaGroup() = default;
  // Runs work(i) on device i's leading thread for all i, concurrently, and returns when all are
  // done. Device 0's leading thread is the caller. When a call throws, `on_failure` (may be empty)
  // is called at once, so that it can abort communication that the others wait in. The first
  // exception is rethrown after all have ended.
  virtual void run(const std::function<void(std::size_t)>& work,
                   const std::function<void(const char* reason)>& on_failure = {}) = 0;
};

// Makes one thread a device, bound with Device::bind_calling_thread (the caller becomes device 0's
// leading thread). Devices outlive the group.
std::unique_ptr<ReplicaGroup> make_thread_replica_group(std::vector<Device*> devices);

// What one rank gives its strategy. All of it outlives the strategy.
struct StrategyContext {
  const nn::ModelSpec* model = nullptr;
  std::vector<Device*> devices;           // of plan.replicas; a server has one
  std::vector<ops::OpBackend*> backends;  // one a device
  comm::Communicator* world = nullptr;    // all ranks; null when there is one
  bool world_spans_hosts = false;         // it is of an engine that can
  // ps with workers on GPUs: all ranks once more, in host memory, for what steers servers, which
  // need no help of a device to hear any worker. Null on CPU devices: `world` carries that, too.
  comm::Communicator* control = nullptr;
  comm::Communicator& commands() const { return control != nullptr ? *control : *world; }
  std::vector<comm::Communicator*> local;  // dp: one a replica, for its threads; else empty
  // For sync_batch_norm: one for each replica of this rank. They connect all replicas and carry
  // nothing else. Empty where statistics are not synchronized.
  std::vector<comm::Communicator*> statistics;
  // pipeline: the ranks with the same layers, in the order of the replicas (null for one replica),
  // and all ranks once more, for messages backward (null where one carries both ways).
  comm::Communicator* alike = nullptr;
  comm::Communicator* returns = nullptr;
  PhaseObserver* observer = nullptr;  // of the first replica, or of a server; may be null
  // Those of devices[1], devices[2], ...; null or missing where a replica is not observed. Threads
  // of different replicas call theirs at the same time.
  std::vector<PhaseObserver*> further_observers;
  PhaseObserver* observer_of(std::size_t i) const {
    if (i == 0) return observer;
    return i <= further_observers.size() ? further_observers[i - 1] : nullptr;
  }
  ReplicaGroup* group = nullptr;  // over `devices`; null when there is one
  // Sets a graph's starting weights: from the seed, or from a checkpoint.
  std::function<void(nn::Graph&)> initialize;
  // Called, before memory is allocated on devices[i], with what the strategy will allocate there.
  // Throws when that and the caller's own allocations are too much. May be empty; dp's threads call
  // it at the same time.
  std::function<void(std::size_t i, MemoryNeeds&)> admit;
  // `reference` calls it when the gradients of one more slice have been added to those of the
  // slices before (queued). May be empty.
  std::function<void()> slice_added;
  RoundingProbe probe;  // for `reference`
};

// The batch of one rank in one pass: plan.batch samples in the device memory of its first replica,
// or in memory that this device reads directly.
struct StepInput {
  const float* images = nullptr;         // [batch, channels, h, w]
  const std::int32_t* labels = nullptr;  // [batch, predictions of a sample]
  // In device memory: the number of labels in the global batch of all passes divided by the number
  // of those that the network's loss does not ignore; 0 if it ignores all. Null if it ignores none.
  const float* valid_weight = nullptr;
};

// Gives the batch of a pass of the step. It is asked for in the order of the passes; the memory of
// the pass before is free then. A `reference` with a probe takes all passes twice.
using StepInputs = std::function<StepInput(int pass)>;

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Plans the graphs, exchanges plan hashes with the peers and sets all state to step 0.
  // Collective.
  virtual void setup(const StrategyContext& context) = 0;
  // One synchronous training step. REQUIRES: a worker. Throws CommError, DeviceError.
  virtual void step(const StepInputs& inputs) = 0;
  // Tells `observer` the times of the last step's buckets or shards. REQUIRES: the work of that
  // step is done (Stream::synchronize).
  virtual void report(PhaseObserver&) {}
  // Serves until all workers have said goodbye. REQUIRES: a server.
  virtual ServedPushes serve() { throw InternalError("this strategy has no servers"); }
  // Whether the last step's update was done without this rank, which computed nothing.
  virtual bool skipped() const { return false; }
  // Sets all state back to step 0: weights, optimizer state, totals. Collective.
  virtual void reset() = 0;
  // Sets parameters, also those on servers, and state by `assign`, which is called with the graph
  // of each replica that keeps parameters between steps. All else stays as it is. Collective.
  virtual void assign(const std::function<void(nn::Graph&)>& assign) = 0;
  // After a step: the gradients that it updated the parameters of updated_replicas()[i] by, in a
  // flat buffer, wherever they were (on servers, in shards). Valid until the next step. Collective.
  virtual BufferView fetch_gradients(std::size_t i);
  // Copies the current parameters, and the state that survives, to all replicas that do not keep
  // their own between steps; with `to_evaluate`, of what evaluation on all ranks together needs.
  // Collective.
  virtual void publish(bool /*to_evaluate*/ = false) {}
  // Queues the evaluation of a batch on replicas()[i], as Replica::evaluate does. Collective where
  // layers are split over ranks.
  virtual void evaluate(std::size_t i, const StepInput& input, std::int64_t samples);
  // What training goes on from beside weights and the statistics of replicas()[0] (state_parts.h):
  // all that there is on any rank. REQUIRES: a worker.
  virtual std::vector<StatePart> parts() = 0;
  // Where layers are split over ranks: those of each part, which rank i of the job has of replica
  // 0. Empty: each replica has all layers.
  virtual std::vector<nn::ModelSpec> split() const { return {}; }
  // Has servers send their parts to rank 0, or take them from it. Collective over the workers.
  virtual void command_servers(Transfer) {}
  // Says goodbye to servers. Collective over the workers.
  virtual void finish() {}

  // Replicas of this rank; their weights are current after publish().
  virtual std::vector<Replica*> replicas() = 0;
  // Those of them whose weights are current after every step (zero3: once gradients are fetched).
  // The others then still have those with which the step began.
  virtual std::vector<Replica*> updated_replicas() { return replicas(); }
};

}  // namespace ddpbench
