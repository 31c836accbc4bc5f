// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs of known phases, for the tests of why. Times of a step are in milliseconds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"
#include "reports/why/why.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {

inline constexpr double kMs = 1e-3;
inline constexpr double kRounding = 1e-12;

// The phases of a rank; `gap` is host time between them.
struct Step {
  double input = 0.1, forward = 6, backward = 12, loss = 0.1, update = 0.8;
  double comm = 0, exposed = 0, wait = 0, wait_exposed = 0, gap = 0.2;
  double total() const {
    return input + forward + backward + loss + update + exposed + wait_exposed + gap;
  }
};

inline std::map<std::string, Figure> phases_of(const Step& step) {
  return {{"data_wait_s", Figure::of(step.input * kMs)},
          {"forward_s", Figure::of(step.forward * kMs)},
          {"backward_s", Figure::of(step.backward * kMs)},
          {"loss_s", Figure::of(step.loss * kMs)},
          {"optimizer_s", Figure::of(step.update * kMs)},
          {"comm_s", Figure::of(step.comm * kMs)},
          {"comm_exposed_s", Figure::of(step.exposed * kMs)},
          {"comm_wait_s", Figure::of(step.wait * kMs)},
          {"comm_wait_exposed_s", Figure::of(step.wait_exposed * kMs)}};
}

inline Run make_run(const char* strategy, const std::vector<Step>& ranks) {
  const auto world = static_cast<int>(ranks.size());
  double slowest = 0;
  for (const Step& step : ranks) slowest = std::max(slowest, step.total() * kMs);
  Run run = test::sample_run(strategy, world, 64.0 * world / slowest);
  run.step.time_s =
      StepStatistics{slowest, Figure::of(0), slowest, slowest, slowest, slowest, slowest};
  run.step.samples_s = {slowest, slowest, slowest};
  run.phases = phases_of(ranks[0]);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    run.devices[r].phases = phases_of(ranks[r]);
    run.devices[r].step_time_median_s = Figure::of(ranks[r].total() * kMs);
  }
  return run;
}

inline BucketRow bucket(int index, double bytes, double ready, double start, double arrived,
                        double end) {
  return {index,    static_cast<std::uint64_t>(bytes), ready * kMs, start * kMs, arrived * kMs,
          end * kMs};
}

inline Report report_of(const Run& run, const Step& single = {}) {
  Report report = test::sample_report();
  report.status = Status::ok;
  report.error.reset();
  report.runs = {make_run("single", {single}), run};
  report.runs[0].device = run.device;
  fill_scaling(report);
  return report;
}

inline bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

#define EXPECT_SAYS(text, words) EXPECT_TRUE(says(text, words)) << (text)

inline Verdict verdict_of(const Run& run, const Step& single = {}) {
  const Report report = report_of(run, single);
  const Verdict verdict = explain(report, report.runs[1], Lender(report));
  double sum = 0;
  for (const VerdictPart& part : verdict.parts) {
    EXPECT_TRUE(part.seconds.value) << part.key;
    EXPECT_GE(part.seconds.value.value_or(-1), 0) << part.key;
    sum += part.seconds.value.value_or(0);
  }
  EXPECT_NEAR(sum, verdict.step_s, kRounding);
  return verdict;
}

inline const VerdictPart& part_of(const Verdict& verdict, const std::string& key) {
  for (const VerdictPart& part : verdict.parts) {
    if (part.key == key) return part;
  }
  ADD_FAILURE() << "no part " << key;
  static const VerdictPart none;
  return none;
}

}  // namespace ddpbench::report
