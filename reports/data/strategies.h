// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What reports know of strategies: the only list of their names in reports/. A report of another
// program may name a strategy that is not listed.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ddpbench::report {

// The strategy that the others are measured against.
inline constexpr const char* kBaseline = "single";

struct StrategyRow {
  std::string_view name;
  // The collective that carries the gradients and has a bus bandwidth ("all_reduce"); empty: none.
  std::string_view collective = {};
  bool through_primary = false;  // all gradients pass through device 0
};

// The order is that of tables and charts.
std::span<const StrategyRow> strategy_rows();
// The row of that name; for an unknown strategy a row with only the name.
StrategyRow strategy_row(std::string_view name);
// The index in strategy_rows(), or their number for an unknown strategy.
std::size_t strategy_rank(std::string_view name);

}  // namespace ddpbench::report
