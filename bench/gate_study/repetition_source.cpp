// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gate_study/repetition_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/math.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

constexpr double kStep_s = 0.02;
constexpr double kBatch = 128;
constexpr double kTail = 0.10;            // logarithm of p95 over median
constexpr double kStepNoise = 0.04;       // of single steps, for runs judged by them
constexpr double kStepCorrelation = 0.5;  // of consecutive steps
constexpr int kSteps = 100;
constexpr double kDisturbance = 0.25;

const std::array<NoiseModel, 6> kModels = {{
    {.name = "independent"},
    {.name = "autocorrelated", .autocorrelation = 0.7},
    {.name = "drift", .drift = 2},
    {.name = "drift, autocorrelated", .autocorrelation = 0.7, .drift = 2},
    {.name = "disturbed", .disturbed = 0.1},
    {.name = "drift, base first", .drift = 2, .in_turn = false},
}};

// Whether the k-th of all runs belongs to the base: A B B A A B B A ..., which cancels a steady
// drift.
bool is_base(int k, int repetitions, bool in_turn) {
  return in_turn ? k % 4 == 0 || k % 4 == 3 : k < repetitions;
}

report::Run plain_run() {
  report::Run run;
  run.strategy = "ddp";
  run.world_size = 2;
  run.backend = "shm";
  run.device = "cpu";
  run.precision = "fp32";
  run.model = "simple_cnn";
  run.per_device_batch_size = 64;
  run.global_batch_size = 128;
  run.epochs = {{0, 1, 1, 1, 0.5, 0.9, report::Figure::of(0.95)}};
  run.devices.resize(1);
  run.devices[0].peak_bytes = 40 * kMiB;
  run.verification.status = "passed";
  run.step.count = kSteps;
  return run;
}

void set_times(report::Run& run, double median, double p95) {
  report::StepStatistics statistics;
  statistics.median = median;
  statistics.p95 = p95;
  run.step.time_s = statistics;
  run.samples_per_s = report::Figure::of(kBatch / median);
}

// Gives a run its steps: its median and tail come from them.
void set_steps(report::Run& run, double median, Normal& random) {
  double state = random();
  run.step.samples_s.clear();
  for (int step = 0; step < kSteps; ++step) {
    run.step.samples_s.push_back(median * std::exp(kStepNoise * state));
    state =
        kStepCorrelation * state + std::sqrt(1 - kStepCorrelation * kStepCorrelation) * random();
  }
  const report::StepStatistics statistics = report::summarize(run.step.samples_s);
  set_times(run, statistics.median, statistics.p95);
}

void slow_down(report::Run& run, double factor) {
  set_times(run, run.step.time_s->median * factor, run.step.time_s->p95 * factor);
  for (double& step : run.step.samples_s) step *= factor;
}

}  // namespace

double Normal::uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

std::size_t Normal::below(std::size_t n) {
  return static_cast<std::size_t>(uniform() * static_cast<double>(n));
}

// Box and Muller, A note on the generation of random normal deviates, 1958.
double Normal::operator()() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::span<const NoiseModel> noise_models() { return kModels; }

Draw draw_model(const NoiseModel& model, double noise, int repetitions, double slowdown,
                Normal& random) {
  static const report::Run plain = plain_run();
  Draw draw;
  const double phi = model.autocorrelation;
  // The drift is part of the noise: the rest of the variance is random.
  const double runs = 2.0 * repetitions;
  const double drift_variance = model.drift * model.drift * (runs + 1) / (12 * (runs - 1));
  const double random_part = std::sqrt(std::max(0.0, 1 - drift_variance));
  double state = random();
  for (int k = 0, base_left = repetitions; k < 2 * repetitions; ++k) {
    const double place = static_cast<double>(k) / (2 * repetitions - 1) - 0.5;
    double log_time = noise * (random_part * state + model.drift * place);
    if (random.uniform() < model.disturbed) log_time += std::log1p(kDisturbance);
    state = phi * state + std::sqrt(1 - phi * phi) * random();
    report::Run run = plain;
    const double median = kStep_s * std::exp(log_time);
    if (repetitions == 1) {
      set_steps(run, median, random);
    } else {
      set_times(run, median, median * std::exp(kTail + noise * random()));
    }
    const int left = 2 * repetitions - k;
    const bool base =
        base_left == left || (base_left > 0 && is_base(k, repetitions, model.in_turn));
    if (base) {
      --base_left;
      draw.base.push_back(std::move(run));
    } else {
      slow_down(run, slowdown);
      draw.candidate.push_back(std::move(run));
    }
  }
  return draw;
}

Draw draw_recorded(std::span<const report::Run> pool, int repetitions, double slowdown,
                   Normal& random) {
  std::vector<std::size_t> order(pool.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto count = static_cast<std::size_t>(repetitions);
  Draw draw;
  for (std::size_t i = 0; i < 2 * count; ++i) {
    std::swap(order[i], order[i + random.below(order.size() - i)]);
    report::Run run = pool[order[i]];
    if (i < count) {
      draw.base.push_back(std::move(run));
    } else {
      slow_down(run, slowdown);
      draw.candidate.push_back(std::move(run));
    }
  }
  return draw;
}

}  // namespace ddpbench::bench
