// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The charts of training runs. The others are of collectives.
#pragma once

#include <array>

namespace ddpbench::report::test {

inline constexpr std::array kRunChartKinds = {"scaling", "breakdown", "memory",
                                              "steps",   "buckets",   "accuracy"};

}  // namespace ddpbench::report::test
