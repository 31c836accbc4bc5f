// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The charts of training runs. The others are of collectives.
#pragma once

#include <array>

#include "reports/charts/chart_data.h"

namespace ddpbench::report::test {

inline constexpr std::array kRunChartKinds = {ChartKind::scaling, ChartKind::breakdown,
                                              ChartKind::memory,  ChartKind::steps,
                                              ChartKind::buckets, ChartKind::accuracy};

}  // namespace ddpbench::report::test
