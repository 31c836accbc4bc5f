// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The command line of `ddpbench fit` for a run that does not fit in memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "bench/plan/training_job.h"

namespace ddpbench::bench {

// Returns the `ddpbench fit` that plans the run of `job` alone: its configuration file, where it
// has one, and the flags in which the run differs from that file or from the defaults.
// `memory_per_device`: bytes; null: fit finds them where it runs.
std::string fit_command(const TrainingJob& job, std::optional<std::size_t> memory_per_device);

// Returns "`ddpbench fit ...` finds the largest batch that fits".
std::string fit_advice(const TrainingJob& job, std::optional<std::size_t> memory_per_device);

// Adds advice to the message of a DoesNotFit: at the end of its sentence, which its table follows.
// Tools that hand on the first line of a message then hand on the advice.
std::string with_advice(std::string message, const std::string& advice);

}  // namespace ddpbench::bench
