// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The order of a sweep, the runs added for precision, and those that an earlier report spares.
#include "bench/plan/sweep_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <set>

namespace ddpbench::bench {
namespace {

using ::testing::ElementsAre;
using Slots = std::vector<Slot>;
using Runner = std::function<std::optional<double>(Slot)>;

// The options of repetitions that tests set.
struct Policy {
  bool interleaved = true;
  std::uint64_t seed = 1;
  int repetitions = 1;
  std::optional<double> wanted_width = {};
  int max_repetitions = 30;
  double max_seconds = 0;

  operator RunOptions() const {  // NOLINT(google-explicit-constructor): rows stay short
    RunOptions options;
    options.order = interleaved ? "interleaved" : "sequential";
    options.seed = seed;
    options.repetitions = repetitions;
    if (wanted_width) options.until_ci = Percent{100 * *wanted_width};
    options.max_repetitions = max_repetitions;
    options.max_minutes = max_seconds / 60;
    return options;
  }
};

// Returns the runs made when each run gives what `runner` says and lasts a second.
Slots made(
    SweepSchedule schedule, const Runner& runner = [](Slot) { return 1.0; }) {
  Slots slots;
  while (const auto slot = schedule.next(static_cast<double>(slots.size()))) {
    slots.push_back(*slot);
    schedule.record(*slot, runner(*slot));
    if (slots.size() > 10000) break;
  }
  return slots;
}

Slots made(
    std::size_t cells, const Policy& policy, const Runner& runner = [](Slot) { return 1.0; }) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < cells; ++i) indices.push_back(i);
  return made(SweepSchedule(indices, policy), runner);
}

int count_of(const Slots& slots, std::size_t cell) {
  return static_cast<int>(
      std::ranges::count_if(slots, [cell](Slot slot) { return slot.cell == cell; }));
}

// Step times differ by a tenth from one repetition to the next.
double noisy(Slot slot) { return 1 + 0.1 * (slot.repetition % 2); }

TEST(Schedule, OneRoundKeepsTheCellsOrder) {
  EXPECT_THAT(made(3, {}), ElementsAre(Slot{0, 0}, Slot{1, 0}, Slot{2, 0}));
}

TEST(Schedule, SequentialRepeatsACellBeforeTheNext) {
  EXPECT_THAT(made(2, {.interleaved = false, .repetitions = 2}),
              ElementsAre(Slot{0, 0}, Slot{0, 1}, Slot{1, 0}, Slot{1, 1}));
}

TEST(Schedule, InterleavedMakesEveryCellOnceARound) {
  const Slots slots = made(5, {.repetitions = 4});
  ASSERT_EQ(slots.size(), 20u);
  for (std::size_t round = 0; round < 4; ++round) {
    std::set<std::size_t> cells;
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(slots[5 * round + i].repetition, static_cast<int>(round));
      cells.insert(slots[5 * round + i].cell);
    }
    EXPECT_EQ(cells.size(), 5u);
  }
}

TEST(Schedule, RoundsHaveOrdersOfTheirOwnFromTheSeed) {
  const Slots first = made(6, {.seed = 1, .repetitions = 3});
  EXPECT_EQ(first, made(6, {.seed = 1, .repetitions = 3}));
  EXPECT_NE(first, made(6, {.seed = 2, .repetitions = 3}));
  const auto cell = [&](std::size_t i) { return first[i].cell; };
  bool differs = false;
  for (std::size_t i = 0; i < 6; ++i) differs = differs || cell(i) != cell(6 + i);
  EXPECT_TRUE(differs);
}

// Every cell must come at every place about equally often: drift within rounds favours no cell.
TEST(Schedule, TheOrderFavoursNoCell) {
  constexpr int kRounds = 2000;
  const Slots slots = made(4, {.repetitions = kRounds});
  std::map<std::pair<std::size_t, std::size_t>, int> places;
  for (std::size_t i = 0; i < slots.size(); ++i) ++places[{slots[i].cell, i % 4}];
  for (const auto& [place, times] : places) {
    EXPECT_NEAR(times, kRounds * 0.25, 5 * std::sqrt(kRounds * 0.25 * 0.75));
  }
}

TEST(Precision, StopsAtTheFewestRepetitionsThatGiveAnInterval) {
  EXPECT_EQ(made(2, {.wanted_width = 0.02}).size(), 12u);
}

TEST(Precision, KeepsRepeatingOnlyTheNoisyCell) {
  const auto slots = made(2, {.wanted_width = 0.02, .max_repetitions = 15},
                          [](Slot slot) { return slot.cell == 0 ? 1.0 : noisy(slot); });
  EXPECT_EQ(count_of(slots, 0), 6);
  EXPECT_EQ(count_of(slots, 1), 15);
}

TEST(Precision, EndsWhenTheIntervalIsNarrow) {
  // The runs are wild at first, then steady: far-off ones are drawn in.
  const auto slots = made(1, {.wanted_width = 0.02, .max_repetitions = 100}, [](Slot slot) {
    return slot.repetition < 2 ? 2.0 + slot.repetition : 1.0 + 0.001 * (slot.repetition % 2);
  });
  EXPECT_GT(slots.size(), 6u);
  EXPECT_LT(slots.size(), 20u);
}

TEST(Precision, AddsNothingAfterTheTimeLimit) {
  EXPECT_EQ(made(1, {.repetitions = 2, .wanted_width = 0.02, .max_seconds = 9}, noisy).size(), 9u);
  EXPECT_EQ(made(1, {.repetitions = 12, .wanted_width = 0.02, .max_seconds = 3}, noisy).size(),
            12u);
}

TEST(Precision, AddsNothingToACellThatFails) {
  const auto slots =
      made(2, {.repetitions = 2, .wanted_width = 0.02}, [](Slot slot) -> std::optional<double> {
        if (slot.cell == 0) return std::nullopt;
        return 1.0;
      });
  EXPECT_EQ(count_of(slots, 0), 2);
  EXPECT_EQ(count_of(slots, 1), 6);
}

TEST(Precision, AlsoEndsSequentialCells) {
  const auto slots = made(2, {.interleaved = false, .wanted_width = 0.02, .max_repetitions = 9},
                          [](Slot slot) { return slot.cell == 0 ? 1.0 : noisy(slot); });
  EXPECT_EQ(count_of(slots, 0), 6);
  EXPECT_EQ(count_of(slots, 1), 9);
}

TEST(RunsLeft, CountsWhatIsPlannedAndTheNextForPrecision) {
  SweepSchedule schedule({0, 1}, Policy{.repetitions = 6, .wanted_width = 0.02});
  EXPECT_EQ(schedule.runs_left(0), (std::map<std::size_t, int>{{0, 6}, {1, 6}}));
  for (int r = 0; r < 6; ++r) schedule.record({0, r}, 1.0);
  EXPECT_EQ(schedule.runs_left(0), (std::map<std::size_t, int>{{1, 6}}));
  for (int r = 0; r < 5; ++r) schedule.record({1, r}, noisy({1, r}));
  EXPECT_EQ(schedule.runs_left(0), (std::map<std::size_t, int>{{1, 1}}));
  EXPECT_FALSE(schedule.interval_width(1));
  schedule.record({1, 5}, noisy({1, 5}));
  EXPECT_EQ(schedule.runs_left(0), (std::map<std::size_t, int>{{1, 1}}));  // for precision
  EXPECT_GT(schedule.interval_width(1).value(), 0.02);
  EXPECT_EQ(schedule.interval_width(0), 0.0);
}

TEST(RunsLeft, AreBoundedByTheMostRepetitions) {
  SweepSchedule schedule({0, 1, 2},
                         Policy{.repetitions = 2, .wanted_width = 0.02, .max_repetitions = 8});
  EXPECT_EQ(schedule.most_runs_left(0), (std::map<std::size_t, int>{{0, 8}, {1, 8}, {2, 8}}));
  for (int r = 0; r < 6; ++r) {
    schedule.record({0, r}, 1.0);
    schedule.record({1, r}, noisy({1, r}));
  }
  schedule.record({2, 0}, std::nullopt);  // nothing is added to a cell of which a run failed
  EXPECT_EQ(schedule.most_runs_left(0), (std::map<std::size_t, int>{{1, 2}, {2, 1}}));
  schedule.record({1, 6}, noisy({1, 6}));
  EXPECT_EQ(schedule.most_runs_left(0), (std::map<std::size_t, int>{{1, 1}, {2, 1}}));
  EXPECT_EQ(SweepSchedule({0}, Policy{.repetitions = 9}).most_runs_left(0),
            (std::map<std::size_t, int>{{0, 9}}));
}

TEST(RunsLeft, EndWithTheTime) {
  SweepSchedule schedule({0, 1}, Policy{.wanted_width = 0.02, .max_seconds = 10});
  for (std::size_t cell = 0; cell < 2; ++cell) schedule.record({cell, 0}, 1.0);
  const auto first = schedule.next(5);
  ASSERT_TRUE(first);
  schedule.record(*first, 1.0);
  EXPECT_EQ(schedule.most_runs_left(9),
            (std::map<std::size_t, int>{{first->cell, 28}, {1 - first->cell, 29}}));
  EXPECT_EQ(schedule.most_runs_left(11), (std::map<std::size_t, int>{}));
  EXPECT_FALSE(schedule.next(11));
}

class Resumed : public testing::TestWithParam<bool> {};

TEST_P(Resumed, MakesExactlyWhatIsMissingInTheSameOrder) {
  const Policy policy{.interleaved = GetParam(), .repetitions = 3};
  const Slots all = made(4, policy);
  for (std::size_t done = 0; done <= all.size(); ++done) {
    SweepSchedule schedule({0, 1, 2, 3}, policy);
    for (std::size_t i = 0; i < done; ++i) schedule.record(all[i], 1.0);
    EXPECT_EQ(made(schedule), Slots(all.begin() + static_cast<std::ptrdiff_t>(done), all.end()));
  }
}

TEST_P(Resumed, FillsGaps) {
  const Policy policy{.interleaved = GetParam(), .repetitions = 2};
  SweepSchedule schedule({0, 1}, policy);
  schedule.record({0, 1}, 1.0);
  schedule.record({1, 0}, 1.0);
  const Slots slots = made(schedule);
  EXPECT_THAT(slots, testing::UnorderedElementsAre(Slot{0, 0}, Slot{1, 1}));
}

TEST_P(Resumed, CountsEarlierRunsForThePrecision) {
  const Policy policy{.interleaved = GetParam(), .wanted_width = 0.02};
  SweepSchedule schedule({0}, policy);
  for (int r = 0; r < 4; ++r) schedule.record({0, r}, 1.0);
  EXPECT_THAT(made(schedule), ElementsAre(Slot{0, 4}, Slot{0, 5}));
}

INSTANTIATE_TEST_SUITE_P(, Resumed, testing::Bool(),
                         [](const auto& p) { return p.param ? "Interleaved" : "Sequential"; });

TEST(Schedule, CountsRepetitionsFromWhereItIsTold) {
  EXPECT_THAT(made(SweepSchedule({7}, Policy{.repetitions = 2}, 3)),
              ElementsAre(Slot{7, 3}, Slot{7, 4}));
}

}  // namespace
}  // namespace ddpbench::bench
