// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The check, before any device of a run allocates, that all that the run will allocate fits into
// the devices' memory.
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

// Through it the devices tell each other what they will take of memory that they share: that of a
// GPU, or the host's.
class ClaimExchange {
 public:
  struct Options {
    comm::Store* store = nullptr;  // common to all devices; outlives this
    int devices = 1;               // that take part
    double timeout_s = 60;         // of each call
    // Called now and then while others are waited for; throws when they cannot come any more.
    std::function<void()> check_peers;
  };
  explicit ClaimExchange(Options options) : options_(std::move(options)) {}

  // Each of the two is collective over the devices: every device calls it once, with its `index`
  // among them. It throws CommTimeout, which names the first device that does not come.
  //
  // Returns when all devices have planned, so that the memory that planning took is free again.
  void await_plans(int index) const;
  // `own`: what the device will take. Returns all claims to the same memory, in the order of the
  // devices, when all devices have told theirs.
  std::vector<MemoryClaim> exchange(int index, const MemoryClaim& own) const;

 private:
  void await_all(int index, const std::string& what) const;

  Options options_;
};

// How a process's batches are made.
BatchSourceOptions batch_source_options(const TrainingJob& job, const ProcessPlan& process);

// `needs`: what the strategy will allocate on devices[i] of the process (StrategyContext::admit).
// Adds the batches, the resident data set and the evaluation's batch.
void add_session_memory(const TrainingJob& job, const ProcessPlan& process,
                        const data::Dataset& dataset, std::size_t i, MemoryNeeds& needs);

// What the process claims of a device's memory for the run.
MemoryClaim memory_claim(const TrainingJob& job, const ProcessPlan& process,
                         const MemoryNeeds& needs);

}  // namespace ddpbench::bench
