// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes a large report of made-up runs, to time the commands that read reports
// (docs/performance.md):
//
//   large_report FILE [RUNS] [SAMPLES] [SPEED]      # default 1000 runs of 10000 samples, speed 1
//
// The runs are repetitions of seven cells. Step times scatter by 3 % around a median / SPEED.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "reports/data/report.h"
#include "reports/json/report_json.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"

namespace ddpbench::bench {
namespace {

using report::Figure;

constexpr double kNoise = 0.03;
constexpr std::int64_t kBatch = 64;

struct Cell {
  const char* strategy;
  int world_size;
  double step_s;
};
constexpr std::array<Cell, 7> kCells = {{{"single", 1, 0.020},
                                         {"dp", 2, 0.025},
                                         {"ddp", 2, 0.021},
                                         {"ps", 2, 0.027},
                                         {"dp", 4, 0.032},
                                         {"ddp", 4, 0.022},
                                         {"ps", 4, 0.034}}};

report::DeviceRow made_up_device(int rank, double step_s) {
  report::DeviceRow device;
  device.rank = device.process_rank = rank;
  device.host = "node";
  device.device = fmt::format("cpu:{}", rank);
  device.cores = {rank};
  device.step_time_median_s = Figure::of(step_s);
  device.peak_bytes = 30 * kMiB;
  device.by_category_bytes = {{"activations", 20 * kMiB}, {"gradients", 5 * kMiB}};
  device.process_peak_rss_bytes = Figure::of(100.0 * kMiB);
  device.phases = {{"forward_s", Figure::of(0.3 * step_s)}, {"comm_wait_s", Figure::of(0.001)}};
  for (int bucket = 0; bucket < 3; ++bucket) {
    const double ready = (0.5 + 0.1 * bucket) * step_s;
    device.buckets.push_back({bucket, kMiB, ready, ready, ready, ready + 0.05 * step_s});
  }
  return device;
}

void set_times(report::Run& run, double step_s, std::int64_t samples, std::mt19937_64& random) {
  std::normal_distribution<double> scatter(step_s, kNoise * step_s);
  run.step.warmup = 10;
  run.step.count = samples;
  for (std::int64_t i = 0; i < samples; ++i) {
    run.step.samples_s.push_back(std::max(scatter(random), 0.5 * step_s));
  }
  run.step.time_s = report::summarize(run.step.samples_s);
  const double rate = static_cast<double>(run.global_batch_size) / run.step.time_s->median;
  run.samples_per_s = Figure::of(rate);
  run.samples_per_s_per_device = Figure::of(rate / run.world_size);
  for (const char* part : {"data_wait_s", "forward_s", "backward_s", "optimizer_s", "comm_s"}) {
    run.phases[part] = Figure::of(0.2 * step_s);
  }
  run.phases["comm_exposed_s"] = Figure::of(0.1 * step_s);
  run.phases["overlap_ratio"] = Figure::of(0.5);
  run.epochs = {{0, static_cast<double>(samples) * step_s, samples * run.global_batch_size, rate,
                 0.25, 0.92, Figure::of(0.98)}};
}

report::Run made_up_run(int index, std::int64_t samples, double speed, std::mt19937_64& random) {
  const Cell& cell = kCells.at(static_cast<std::size_t>(index) % kCells.size());
  const double step_s = cell.step_s / speed;
  report::Run run;
  run.strategy = cell.strategy;
  run.world_size = cell.world_size;
  run.servers = run.strategy == "ps" ? 1 : 0;
  run.repetition = index / static_cast<int>(kCells.size());
  run.device = "cpu";
  run.device_model = "made up";
  run.backend = cell.world_size > 1 ? "shm" : "";
  run.precision = "fp32";
  run.model = "simple_cnn";
  run.parameters = 421642;
  run.optimizer = {{"lr", 0.01}, {"momentum", 0.9}, {"weight_decay", 0}};
  run.per_device_batch_size = kBatch;
  run.global_batch_size = kBatch * cell.world_size;
  run.scaling_mode = "weak";
  run.dataset_name = "mnist";
  run.dataset_source = "synthetic";
  run.train_samples = 60000;
  run.test_samples = 10000;
  for (Figure* time : {&run.time.startup_s, &run.time.verify_s, &run.time.warmup_s,
                       &run.time.train_s, &run.time.evaluate_s, &run.time.total_s}) {
    *time = Figure::of(1);
  }
  set_times(run, step_s, samples, random);
  for (int rank = 0; rank < cell.world_size; ++rank) {
    run.devices.push_back(made_up_device(rank, step_s));
  }
  run.verification.status = cell.world_size == 1 ? "reference" : "passed";
  return run;
}

report::Report made_up_report(int runs, std::int64_t samples, double speed) {
  std::mt19937_64 random(1);
  report::Report report;
  report.generator.version = "0.1.0";
  report.generator.git_reason = "made up";
  report.started_at = report.finished_at = "2026-01-31T12:00:00Z";
  report.argv = {"large_report"};
  report.environment.hosts = {"node"};
  for (int i = 0; i < runs; ++i) report.runs.push_back(made_up_run(i, samples, speed, random));
  report::fill_scaling(report);
  return report;
}

}  // namespace
}  // namespace ddpbench::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() < 2 || words.size() > 5) {
    fmt::print(stderr, "usage: large_report FILE [RUNS] [SAMPLES] [SPEED]\n");
    return 2;
  }
  try {
    const int runs = words.size() > 2 ? std::stoi(words[2]) : 1000;
    const std::int64_t samples = words.size() > 3 ? std::stoll(words[3]) : 10000;
    const double speed = words.size() > 4 ? std::stod(words[4]) : 1;
    ddpbench::report::write_report(ddpbench::bench::made_up_report(runs, samples, speed), words[1],
                                   /*force=*/true);
  } catch (const std::exception& error) {
    fmt::print(stderr, "large_report: {}\n", error.what());
    return 2;
  }
  return 0;
}
