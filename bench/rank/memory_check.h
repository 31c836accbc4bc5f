// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a process of a run will allocate on its devices, so that the devices can be asked for room
// before any of it is allocated.
#pragma once

#include <cstddef>

#include "bench/feed/batch_source.h"
#include "bench/plan/training_job.h"
#include "datasets/dataset.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

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
