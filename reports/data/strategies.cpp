// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/strategies.h"

#include <algorithm>
#include <array>

namespace ddpbench::report {
namespace {

constexpr auto kRows = std::to_array<StrategyRow>({{.name = kBaseline},
                                                   {.name = "dp", .through_primary = true},
                                                   {.name = "ddp", .collective = "all_reduce"},
                                                   {.name = "ps"}});

}  // namespace

std::span<const StrategyRow> strategy_rows() { return kRows; }

StrategyRow strategy_row(std::string_view name) {
  const std::size_t rank = strategy_rank(name);
  return rank < kRows.size() ? kRows.at(rank) : StrategyRow{.name = name};
}

std::size_t strategy_rank(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(kRows, name, &StrategyRow::name) -
                                  kRows.begin());
}

}  // namespace ddpbench::report
