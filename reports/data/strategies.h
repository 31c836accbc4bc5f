// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What reports know of strategies: the one place where their names stand. Reports of other programs
// may have strategies that are not here; of those nothing is known.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ddpbench::report {

// The strategy that the others are measured against.
inline constexpr const char* kBaseline = "single";

struct StrategyRow {
  std::string_view name;
  // The collective that carries the gradients and whose bus bandwidth can be told ("all_reduce");
  // empty: there is none.
  std::string_view collective = {};
  bool through_primary = false;  // all gradients pass through the first device
};

// In the order of tables and charts.
std::span<const StrategyRow> strategy_rows();
// A row of that name; one that says nothing where the strategy is not known.
StrategyRow strategy_row(std::string_view name);
// The place in strategy_rows(); their number for a strategy that is not known.
std::size_t strategy_rank(std::string_view name);

}  // namespace ddpbench::report
