// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How often the gate errs, by its own code on drawn repetitions: the tables of docs/gate.md.
//   reports_test --gtest_also_run_disabled_tests --gtest_filter='GateErrors.*'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>

#include "reports/gate/gate.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr double kStep_s = 0.02;
constexpr double kBatch = 128;
constexpr double kTail = 0.10;            // logarithm of p95 over median
constexpr double kStepNoise = 0.04;       // of single steps, for runs judged by them
constexpr double kStepCorrelation = 0.5;  // of consecutive steps
constexpr int kSteps = 100;
constexpr double kDisturbance = 0.25;
constexpr double kSlowdown = 1.10;

// How the logarithm of the step time varies between repetitions. The noise is the standard
// deviation over all repetitions of a program, drift and autocorrelation included. Disturbances
// come on top. The 95th percentile varies by as much again.
struct Kind {
  const char* name;
  double autocorrelation = 0;  // of consecutive runs
  double drift = 0;            // from the first run to the last, in units of the noise
  double disturbed = 0;        // share of the repetitions that other work slows by 25 %
  bool in_turn = true;         // base new new base ...; false: all of the base first
};
constexpr std::array kKinds = {
    Kind{.name = "independent"},
    Kind{.name = "autocorrelated", .autocorrelation = 0.7},
    Kind{.name = "drift", .drift = 2},
    Kind{.name = "drift, autocorrelated", .autocorrelation = 0.7, .drift = 2},
    Kind{.name = "disturbed", .disturbed = 0.1},
    Kind{.name = "drift, base first", .drift = 2, .in_turn = false},
};

Run plain_run() {
  Run run;
  run.strategy = "ddp";
  run.backend = "shm";
  run.device = "cpu";
  run.precision = "fp32";
  run.model = "simple_cnn";
  run.per_device_batch_size = 64;
  run.global_batch_size = 128;
  run.verification.status = "passed";
  run.step.count = kSteps;
  return run;
}

void set_times(Run& run, double median, double p95) {
  StepStatistics statistics;
  statistics.median = median;
  statistics.p95 = p95;
  run.step.time_s = statistics;
  run.samples_per_s = Figure::of(kBatch / median);
}

// Gives a run its steps: its median and tail come from them.
void set_steps(Run& run, double median, test::Normal& random) {
  double state = random();
  for (int step = 0; step < kSteps; ++step) {
    run.step.samples_s.push_back(median * std::exp(kStepNoise * state));
    state =
        kStepCorrelation * state + std::sqrt(1 - kStepCorrelation * kStepCorrelation) * random();
  }
  const StepStatistics statistics = summarize(run.step.samples_s);
  set_times(run, statistics.median, statistics.p95);
}

void slow_down(Run& run, double factor) {
  set_times(run, run.step.time_s->median * factor, run.step.time_s->p95 * factor);
  for (double& step : run.step.samples_s) step *= factor;
}

// Adds the repetitions of one pair to both reports; the order A B B A A B B A ... cancels a drift.
void draw_pair(const Kind& kind, double noise, int repetitions, int devices, double slowdown,
               test::Normal& random, Report& base, Report& candidate) {
  const int runs = 2 * repetitions;
  // The drift is part of the noise: the rest of the variance is random.
  const double random_part =
      std::sqrt(std::max(0.0, 1 - kind.drift * kind.drift * (runs + 1) / (12.0 * (runs - 1))));
  const double phi = kind.autocorrelation;
  double state = random();
  for (int k = 0, base_left = repetitions; k < runs; ++k) {
    const double place = static_cast<double>(k) / (runs - 1) - 0.5;
    double log_time = noise * (random_part * state + kind.drift * place);
    if (random.uniform() < kind.disturbed) log_time += std::log1p(kDisturbance);
    state = phi * state + std::sqrt(1 - phi * phi) * random();
    Run run = plain_run();
    run.world_size = devices;
    const double median = kStep_s * std::exp(log_time);
    if (repetitions == 1) {
      set_steps(run, median, random);
    } else {
      set_times(run, median, median * std::exp(kTail + noise * random()));
    }
    const bool turn = kind.in_turn ? k % 4 == 0 || k % 4 == 3 : k < repetitions;
    if (base_left == runs - k || (base_left > 0 && turn)) {
      --base_left;
      base.runs.push_back(std::move(run));
    } else {
      slow_down(run, slowdown);
      candidate.runs.push_back(std::move(run));
    }
  }
}

// The shares of the verdicts on the first of `pairs` pairs, which is slowed down.
std::array<double, 4> rates(const Kind& kind, double noise, int repetitions, int pairs,
                            double slowdown, int trials, test::Normal& random) {
  std::array<double, 4> shares = {};
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<Report> base(1), candidate(1);
    for (int pair = 0; pair < pairs; ++pair) {
      draw_pair(kind, noise, repetitions, pair + 1, pair == 0 ? slowdown : 1, random, base[0],
                candidate[0]);
    }
    const GateResult result = check_reports(candidate, base, {});
    shares[static_cast<std::size_t>(result.pairs.front().verdict)] += 1.0 / trials;
  }
  return shares;
}

double share(const std::array<double, 4>& shares, GateVerdict verdict) {
  return shares[static_cast<std::size_t>(verdict)];
}

// At five repetitions a side and 3 % noise, where both programs ran in turn.
TEST(GateErrors, FindTenPercentAndRaiseNoFalseAlarm) {
  constexpr int kTrials = 700;
  for (std::size_t kind = 0; kind < 4; ++kind) {
    SCOPED_TRACE(kKinds[kind].name);
    test::Normal random(kind + 1);
    EXPECT_LE(share(rates(kKinds[kind], 0.03, 5, 1, 1, kTrials, random), GateVerdict::regressed),
              0.01);
    EXPECT_GE(
        share(rates(kKinds[kind], 0.03, 5, 1, kSlowdown, kTrials, random), GateVerdict::regressed),
        0.96);
  }
}

void print_row(const std::string& label, const Kind& kind, double noise, int repetitions, int pairs,
               test::Normal& random) {
  constexpr int kTrials = 4000;
  const auto same = rates(kind, noise, repetitions, pairs, 1, kTrials, random);
  const auto slow = rates(kind, noise, repetitions, pairs, kSlowdown, kTrials, random);
  const auto passed = [](const auto& shares) {
    return share(shares, GateVerdict::pass) + share(shares, GateVerdict::improved);
  };
  fmt::print("| {} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % |\n", label,
             100 * share(same, GateVerdict::regressed), 100 * passed(same),
             100 * share(same, GateVerdict::inconclusive),
             100 * share(slow, GateVerdict::regressed), 100 * passed(slow));
}

TEST(GateErrors, DISABLED_PrintTheTables) {
  test::Normal random(1);
  for (const double noise : {0.01, 0.03, 0.05, 0.10}) {
    for (const int repetitions : {1, 2, 3, 5, 8, 12}) {
      print_row(fmt::format("{:.0f} % | {}", 100 * noise, repetitions), kKinds[0], noise,
                repetitions, 1, random);
    }
  }
  for (const Kind& kind : kKinds) {
    for (const double noise : {0.03, 0.05}) {
      print_row(fmt::format("{} | {:.0f} %", kind.name, 100 * noise), kind, noise, 5, 1, random);
    }
  }
  for (const int pairs : {1, 2, 4, 8}) {
    for (const std::size_t kind : {0U, 3U}) {
      print_row(fmt::format("{} | {}", pairs, kKinds[kind].name), kKinds[kind], 0.03, 5, pairs,
                random);
    }
  }
}

}  // namespace
}  // namespace ddpbench::report
