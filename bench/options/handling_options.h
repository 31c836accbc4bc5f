// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Definitions of the options that say how runs are handled: measuring, files, output, and the keys
// that only a configuration file has. Private to option_definitions.cpp, which shares the rules
// below.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

using Definitions = std::vector<OptionDefinition>;

// More than any machine has: a slipped digit is refused before it becomes an allocation.
inline constexpr double kMostDevices = 65536, kMostThreads = 4096, kMostSteps = 1e12,
                        kMostTimes = 1e6;
inline constexpr double kMostSamples = 1 << 24, kMostTracedSteps = 1e4;

inline ValueRule one_of(std::vector<std::string> choices, std::vector<AbsentChoice> absent = {}) {
  return {.choices = std::move(choices), .absent = std::move(absent)};
}
inline ValueRule between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}
inline ValueRule positive() { return {.above_minimum = true}; }
inline ValueRule any_number() { return {.minimum = -std::numeric_limits<double>::infinity()}; }

Definitions measuring_options();
Definitions launch_options();  // launch_options.cpp
Definitions file_options();
Definitions other_options();
Definitions file_only_keys();

}  // namespace ddpbench::bench
