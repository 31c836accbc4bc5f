// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that a run takes on its devices: planned before any rank of it starts, and claimed by
// its ranks, before any device of the run allocates.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/feed/batch_source.h"
#include "bench/plan/training_job.h"
#include "datasets/dataset.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/store/store.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// Lets the devices tell each other how much they will take of memory that they share: that of a
// GPU, or the host's.
class ClaimExchange {
 public:
  struct Options {
    comm::Store* store = nullptr;  // common to all devices; outlives this
    int devices = 1;               // number of devices that take part
    double timeout_s = 60;         // limit of each call
    // Called now and then while this waits for others; throws when they cannot come any more.
    std::function<void()> check_peers;
  };
  explicit ClaimExchange(Options options) : options_(std::move(options)) {}

  // Both calls are collective over the devices: each device calls them once, with its `index`. They
  // throw CommTimeout that names the first device that does not come.
  //
  // Returns when all devices have planned, so that the memory that planning took is free again.
  void await_plans(int index) const;
  // `own`: what the device will take. Returns, once all devices have told theirs, all claims to the
  // same memory in the order of the devices, with the least that a device of its kind saw free.
  std::vector<MemoryClaim> exchange(int index, const MemoryClaim& own) const;

 private:
  void await_all(int index, const std::string& what) const;

  Options options_;
};

// The options of the source of a rank's batches.
BatchSourceOptions batch_source_options(const TrainingJob& job, const RankPlan& plan);

// Adds the batches, the resident data set and the evaluation's batch to `needs`, which has what the
// strategy will allocate on devices[i] of the rank (StrategyContext::admit).
void add_session_memory(const TrainingJob& job, const RankPlan& plan, const data::Dataset& dataset,
                        std::size_t i, MemoryNeeds& needs);

// The memory that the rank claims on a device for the run.
MemoryClaim memory_claim(const TrainingJob& job, const RankPlan& plan, const MemoryNeeds& needs);

// Devices of a run that take the same memory.
struct PlannedDevice {
  std::string role;  // "the device", "the primary device", "another device", "a server"
  int first = 0;     // the number of the first of them among the run's devices
  int count = 1;
  bool on_host = false;  // a CPU device beside GPUs: a server
  std::size_t bytes = 0;
  CategoryBytes by_category{};
};

// A device on which graphs are planned, with its operations.
struct PlanningDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<ops::OpBackend> backend;
};
// One device of each kind that the job's ranks have. Servers may be on CPU devices while workers
// are on GPUs.
struct PlanningDevices {
  PlanningDevice workers, servers;  // servers: null where they are planned like the workers
};
// Makes those that `job` needs and that are not in `devices` yet. The calling thread leads them
// from now on. Throws as make_device and the CUDA module do.
void add_planning_devices(const TrainingJob& job, PlanningDevices& devices);

// [device] The number of the process that has it: the workers' devices, then the servers'.
std::vector<int> processes_of_devices(const TrainingJob& job);

// What the job's ranks will allocate: graphs, optimizer, batches, evaluation, shards. What
// communicators and libraries hold beside it is not in it. REQUIRES: add_planning_devices().
std::vector<PlannedDevice> plan_run_memory(const TrainingJob& job, const nn::ModelSpec& model,
                                           const data::Dataset& dataset,
                                           const PlanningDevices& devices);

}  // namespace ddpbench::bench
