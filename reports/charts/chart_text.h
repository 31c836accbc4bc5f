// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Charts drawn with characters, for a terminal or a log. Each point, bar or bucket has a line with
// its numbers, so that no colour is needed.
#pragma once

#include <string>

#include "reports/charts/chart_data.h"

namespace ddpbench::report {

struct TextOptions {
  int width = 80;       // the most columns; less than 40 counts as 40
  bool unicode = true;  // block characters; false: ASCII
};

// All end with a newline. REQUIRES: chart.empty_reason is empty.
std::string draw_text(const ScalingChart& chart, const TextOptions& options);
std::string draw_text(const StepsChart& chart, const TextOptions& options);
std::string draw_text(const BucketsChart& chart, const TextOptions& options);
std::string draw_text(const AccuracyChart& chart, const TextOptions& options);
std::string draw_text(const BandwidthChart& chart, const TextOptions& options);
std::string draw_breakdown(const StackedChart& chart, const TextOptions& options);
std::string draw_memory(const StackedChart& chart, const TextOptions& options);
std::string draw_busy(const StackedChart& chart, const TextOptions& options);

}  // namespace ddpbench::report
