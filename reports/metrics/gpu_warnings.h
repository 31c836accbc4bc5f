// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs whose clocks were held down while a run trained.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// A sentence a reason, without "warning:", for all runs together: "in 2 of 4 runs a GPU's clocks
// were held down by its power limit, at worst on cuda:1 in 40 % of the samples".
std::vector<std::string> gpu_warnings(const Report& report);

}  // namespace ddpbench::report
