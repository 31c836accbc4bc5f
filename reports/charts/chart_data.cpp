// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/chart_data.h"

namespace ddpbench::report {

std::string_view to_string(ChartKind kind) {
  switch (kind) {
    case ChartKind::scaling:
      return "scaling";
    case ChartKind::breakdown:
      return "breakdown";
    case ChartKind::memory:
      return "memory";
    case ChartKind::steps:
      return "steps";
    case ChartKind::buckets:
      return "buckets";
    case ChartKind::accuracy:
      return "accuracy";
    case ChartKind::busy:
      return "busy";
    case ChartKind::bandwidth:
      break;
  }
  return "bandwidth";
}

std::string_view to_string(CourseAxis axis) {
  return axis == CourseAxis::seconds ? "seconds" : "steps";
}

std::optional<ChartKind> chart_kind(std::string_view word) {
  for (const ChartKind kind : kChartKinds) {
    if (word == to_string(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace ddpbench::report
