// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether planted faults (--inject) hit anything in the runs of a command. Pure.
#pragma once

#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::bench {

// Why the fault hits nothing in the run; empty: it hits something.
std::string why_it_misses(const Injection& injection, const TrainingJob& job,
                          const nn::ModelSpec& model);

// Returns a line for each fault of the command that hits only some of `jobs`, which are all of its
// runs. Throws ConfigError for a fault that hits none.
std::vector<std::string> check_injections(const std::vector<TrainingJob>& jobs,
                                          const nn::ModelSpec& model);

}  // namespace ddpbench::bench
