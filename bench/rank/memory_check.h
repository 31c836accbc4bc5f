// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks that all that a run will allocate fits into its devices' memory. The check comes before
// any device of the run allocates.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/feed/batch_source.h"
#include "bench/plan/training_job.h"
#include "datasets/dataset.h"
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

}  // namespace ddpbench::bench
