// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The first answer of many settings, and of such that take nearly the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/metrics/scaling.h"
#include "reports/why/why.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::sample_run;
using testing::HasSubstr;

// A sweep: the head stays a line.
TEST(AnswerWords, NameThreeOfManyThatAreAsFast) {
  std::vector<report::Run> runs = {sample_run("single", 1, 7081), sample_run("dp", 1, 7137),
                                   sample_run("ddp", 1, 7474), sample_run("ddp", 2, 10632),
                                   sample_run("dp", 2, 10374)};
  for (const char* strategy : {"zero1", "zero2", "zero3"})
    runs.push_back(sample_run(strategy, 2, 10000));
  Report report = test::report_of(runs);
  fill_scaling(report);
  const std::vector<std::string> lines = answer_lines(all_runs(report));
  EXPECT_EQ(lines[0],
            "ddp or dp or zero1 or 2 others on 2 devices: 1.50 times the samples/s of one device "
            "(10632 and 10374 and 10000 and 2 others against 7081, global batch 128 instead of "
            "64).");
  EXPECT_THAT(lines[1], HasSubstr(" ddp or dp or zero1 or 2 others: cannot tell; 6.3 % apart"));
}

TEST(AnswerWords, TellApartHowLongEqualWorkTook) {
  const auto head = [](double samples_per_s) {
    Report report =
        test::report_of({sample_run("single", 1, 7081), sample_run("ddp", 1, samples_per_s),
                         sample_run("ddp", 2, 10632)});
    fill_scaling(report);
    report.runs[0].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
    return answer_lines(all_runs(report))[0];
  };
  EXPECT_THAT(head(7083), HasSubstr("took 9.0357 to 9.0383 ms."));
  EXPECT_THAT(head(7474), HasSubstr("took 8.56 to 9.04 ms."));
}

}  // namespace
}  // namespace ddpbench::report
