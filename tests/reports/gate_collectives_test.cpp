// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gate on reports of `ddpbench comm`: the same rules as for runs, on the collectives' times.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/gate/gate.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using test::collective_report;
using test::collective_reports;
using test::steady;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

GateResult check(const std::vector<Report>& candidate, const std::vector<Report>& base,
                 const GateOptions& options = {}) {
  return check_reports(candidate, base, options);
}

std::vector<std::string> figures_of(const GateResult& result) {
  std::vector<std::string> names;
  for (const FigureVerdict& figure : result.pairs.at(0).figures) names.push_back(figure.name);
  return names;
}

std::string refusal(const std::vector<Report>& candidate, const std::vector<Report>& base) {
  try {
    check(candidate, base);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(GateOfCollectives, FollowsTheRulesOfRuns) {
  const std::vector<Report> base = collective_reports(steady());
  const GateResult same = check(collective_reports(steady()), base);
  EXPECT_EQ(same.verdict, GateVerdict::pass);
  EXPECT_THAT(figures_of(same), ElementsAre("median_time_s", "p95_time_s"));
  EXPECT_THAT(same.pairs[0].notes, IsEmpty());
  EXPECT_EQ(same.pairs[0].base_repetitions, 5U);
  const GateResult slow = check(collective_reports(steady(1.2)), base);
  EXPECT_EQ(slow.verdict, GateVerdict::regressed);
  EXPECT_NEAR(test::figure_of(slow, "median_time_s").change.value(), 0.2, 1e-9);
  EXPECT_EQ(check(collective_reports(steady(0.8)), base).verdict, GateVerdict::improved);
  EXPECT_EQ(
      check(collective_reports(steady(1.2)), base, {.max_slowdown = 0.3, .max_tail_slowdown = 0.3})
          .verdict,
      GateVerdict::pass);
}

TEST(GateOfCollectives, DoesNotDecideOnOneReportASide) {
  const GateResult result = check(collective_reports({0.02}), collective_reports({0.04}));
  EXPECT_EQ(result.verdict, GateVerdict::inconclusive);
  EXPECT_THAT(test::figure_of(result, "median_time_s").note, HasSubstr("several times, in turn"));
  EXPECT_EQ(test::figure_of(result, "median_time_s").repetitions_needed, 5);
}

TEST(GateOfCollectives, TakesWrongResultsForARegression) {
  std::vector<Report> wrong = collective_reports(steady());
  wrong[2].collectives[0].wrong = 3;
  const GateResult result = check(wrong, collective_reports(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  EXPECT_THAT(result.pairs[0].notes,
              ::testing::Contains(HasSubstr("1 of 5 new repetitions failed (verification failed: "
                                            "3 wrong elements in the results)")));
}

TEST(GateOfCollectives, TakesFailedRowsForARegression) {
  std::vector<Report> failed = collective_reports(steady());
  failed[0].status = Status::failed;
  failed[0].collectives[0].time_s.reset();
  failed[0].collectives[0].iterations = 0;
  failed[0].collectives[0].wrong.reset();
  failed[0].collectives[0].wrong_reason = "rank 1 died";
  EXPECT_EQ(check(failed, collective_reports(steady())).verdict, GateVerdict::regressed);
  failed[0].status = Status::interrupted;
  EXPECT_EQ(check(failed, collective_reports(steady())).verdict, GateVerdict::inconclusive);
}

TEST(GateOfCollectives, ComparesEqualSizesAndNamesTheOthers) {
  std::vector<Report> candidate, base;
  for (const double median_s : steady()) {
    candidate.push_back(collective_report(median_s, {4096, 1 << 20}));
    base.push_back(collective_report(median_s, {4096, 1000}));
  }
  const GateResult result = check(candidate, base);
  ASSERT_EQ(result.pairs.size(), 1U);
  EXPECT_EQ(to_string(result.pairs[0].key), "all_reduce, 2 ranks, shm, 4 KiB");
  const std::string table = render_gate_table(result, 0);
  EXPECT_THAT(table, AllOf(HasSubstr("new all_reduce, 2 ranks, shm, 1 MiB (5 runs): not in the"),
                           HasSubstr("baseline all_reduce, 2 ranks, shm, 1000 B (5 runs): not")));
}

TEST(GateOfCollectives, RefusesUnlikeTypes) {
  std::vector<Report> other = collective_reports(steady());
  for (Report& report : other) report.collectives[0].data_type = "bf16";
  EXPECT_THAT(refusal(other, collective_reports(steady())),
              AllOf(HasSubstr("data_type: new bf16, baseline fp32"),
                    HasSubstr("--allow-mismatch=data_type")));
  EXPECT_THAT(gate_setting_keys(other, other),
              AllOf(::testing::Contains("data_type"), ::testing::Contains("iterations")));
  EXPECT_EQ(check(other, collective_reports(steady()), {.allow_mismatch = {"data_type"}}).verdict,
            GateVerdict::pass);
}

TEST(GateOfCollectives, RefusesAnotherEmulatedLink) {
  std::vector<Report> other = collective_reports(steady());
  for (Report& report : other) report.collectives[0].emulated_link = "1Gbit,50us";
  EXPECT_THAT(refusal(other, collective_reports(steady())),
              HasSubstr("emulated_link: new 1Gbit,50us"));
}

TEST(GateOfCollectives, IsNoCounterpartOfRuns) {
  EXPECT_THAT(refusal(collective_reports(steady()), {test::gate_report(steady())}),
              HasSubstr("nothing to compare"));
}

TEST(GateOfCollectives, HasAllOutputs) {
  const GateResult result = check(collective_reports(steady(1.2)), collective_reports(steady()));
  const auto written = nlohmann::json::parse(render_gate_json(result));
  EXPECT_THAT(ddpbench::test::schema_errors(written, DDPBENCH_CHECK_SCHEMA), IsEmpty());
  EXPECT_EQ(written["pairs"][0]["kind"], "collective");
  EXPECT_EQ(written["pairs"][0]["bytes"], 4096);
  EXPECT_THAT(render_gate_table(result, 0),
              AllOf(HasSubstr("19999 -> 23999 us"), HasSubstr("20.0 % slower"),
                    HasSubstr("; allowed 5 %\n    5 against 5; p95 time 20.0 % worse\n"),
                    Not(HasSubstr("not compared"))));
  EXPECT_THAT(render_gate_markdown(result),
              HasSubstr("| all\\_reduce, 2 ranks, shm, 4 KiB | 19998.97 us | "));
  EXPECT_THAT(render_gate_junit(result), HasSubstr("name=\"all_reduce, 2 ranks, shm, 4 KiB\""));
  EXPECT_THAT(render_gate_github(result),
              HasSubstr("::error title=ddpbench all_reduce%2C 2 ranks%2C shm%2C 4 KiB::"));
}

}  // namespace
}  // namespace ddpbench::report
