// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The recommendation below a table (metrics/ranking.h).
#pragma once

#include <span>
#include <string>

#include "reports/data/report_view.h"

namespace ddpbench::report {

// "On this machine, for simple_cnn on mnist, global batch 128: ddp on 2 devices, 12 % ahead of dp
// on 2 devices (95 % interval 9 to 15).": a line for each work that several settings do, then the
// settings that stand alone. A line before both names the differences that make rows incomparable.
// Wrapped to `width` columns (0: not wrapped), without control characters. Empty where there is
// nothing to compare, and for reports of `ddpbench tune`.
std::string ranking_lines(std::span<const RunRow> rows, int width);

}  // namespace ddpbench::report
