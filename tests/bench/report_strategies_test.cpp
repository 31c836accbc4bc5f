// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What reports know of strategies agrees with the table of strategies, which reports/ must not use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/strategies.h"
#include "reports/data/settings.h"

namespace ddpbench {
namespace {

std::vector<std::string> names_of(const auto& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// A strategy without a row comes last in charts. Only strategies that need more words have rows.
TEST(ReportStrategies, AreSomeOfTheTableOfStrategiesInItsOrder) {
  const std::vector<std::string> known = names_of(report::strategy_rows());
  std::vector<std::string> listed;
  for (const StrategyTraits& traits : all_strategies()) {
    if (report::strategy_rank(traits.name) < known.size()) listed.emplace_back(traits.name);
  }
  EXPECT_EQ(known, listed);
  EXPECT_FALSE(known.empty());
}

TEST(ReportStrategies, AreMeasuredAgainstTheSameOne) {
  EXPECT_TRUE(strategy_traits(report::kBaseline).is_baseline());
}

TEST(ReportStrategies, OfOtherProgramsAreNotKnown) {
  EXPECT_EQ(report::strategy_rank("fsdp"), report::strategy_rows().size());
  EXPECT_EQ(report::strategy_row("fsdp").collective, "");
  EXPECT_FALSE(report::strategy_row("fsdp").through_primary);
}

}  // namespace
}  // namespace ddpbench
