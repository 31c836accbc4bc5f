// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Why a figure is missing when whoever filled the report in did not say. Private to reports/.
#pragma once

#include <string>

#include "reports/data/report.h"

namespace ddpbench::report {

inline constexpr const char* kDivergedReason = "training diverged: the loss is not finite";

std::string missing_reason(const Run& run);
// The figure's own reason, else the run's.
std::string missing_reason(const Figure& figure, const Run& run);

}  // namespace ddpbench::report
