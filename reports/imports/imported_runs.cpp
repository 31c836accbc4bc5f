// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/imports/imported_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr const char* kNotTold = "the imported file does not tell it";

// Seconds by step, and the bytes and losses of whole steps.
struct RankSteps {
  std::map<std::int64_t, double> whole;
  std::map<std::string, std::map<std::int64_t, double>> phases;
  std::optional<double> peak_bytes;
  std::vector<double> losses;
};

using Repetition = std::map<int, RankSteps>;  // by rank

[[noreturn]] void fail(const std::string& path, const StepTime& row, const std::string& message) {
  throw ConfigError(fmt::format("{}: line {}: {}", path, row.line, message));
}

std::string place_of(const StepTime& row) {
  return fmt::format("step {} of rank {} in repetition {}", row.step, row.rank, row.repetition);
}

void add(RankSteps& rank, const StepTime& row, const std::string& path) {
  auto& steps = row.phase.empty() ? rank.whole : rank.phases[row.phase];
  if (!steps.emplace(row.step, row.seconds).second) {
    fail(path, row,
         fmt::format("{}{} comes twice", place_of(row),
                     row.phase.empty() ? "" : ", phase " + row.phase));
  }
  if (!row.phase.empty()) return;
  if (row.memory_bytes) {
    rank.peak_bytes = std::max(rank.peak_bytes.value_or(0), *row.memory_bytes);
  }
  if (row.loss) rank.losses.push_back(*row.loss);
}

// The rows without the warm-up: the first `warmup` step numbers of each repetition.
std::map<int, Repetition> timed_steps(const StepTimes& times, std::int64_t warmup,
                                      const std::string& path) {
  std::map<int, std::set<std::int64_t>> numbers;
  for (const StepTime& row : times.rows) numbers[row.repetition].insert(row.step);
  std::map<int, Repetition> repetitions;
  for (const StepTime& row : times.rows) {
    const std::set<std::int64_t>& steps = numbers.at(row.repetition);
    if (static_cast<std::int64_t>(steps.size()) <= warmup) {
      throw ConfigError(
          fmt::format("{}: repetition {} has {}, and the first {} are the warm-up; give a smaller "
                      "--warmup-steps",
                      path, row.repetition, counted(steps.size(), "step"), warmup));
    }
    if (row.step < *std::next(steps.begin(), warmup)) continue;
    add(repetitions[row.repetition][row.rank], row, path);
  }
  return repetitions;
}

void check(const Repetition& ranks, int repetition, const std::string& path) {
  int expected = 0;
  for (const auto& [rank, steps] : ranks) {
    if (rank != expected++ || steps.whole.empty()) {
      throw ConfigError(fmt::format("{}: rank {} of repetition {} has no whole steps", path,
                                    std::min(rank, expected - 1), repetition));
    }
  }
}

// The slowest rank's time of each step that all ranks have.
std::vector<double> slowest(const std::vector<const std::map<std::int64_t, double>*>& ranks) {
  std::vector<double> times;
  for (const auto& [step, first] : *ranks.front()) {
    double most = first;
    const bool all = std::ranges::all_of(ranks, [&](const auto* rank) {
      const auto found = rank->find(step);
      if (found != rank->end()) most = std::max(most, found->second);
      return found != rank->end();
    });
    if (all) times.push_back(most);
  }
  return times;
}

std::vector<double> seconds_of(const std::map<std::int64_t, double>& steps) {
  std::vector<double> seconds;
  for (const auto& [step, value] : steps) seconds.push_back(value);
  return seconds;
}

std::string phase_key(const std::string& phase) {
  std::string key;
  for (const char c : phase) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    key += plain ? c : '_';
  }
  return key.ends_with("_s") ? key : key + "_s";
}

std::map<std::string, Figure> phases_of(const Repetition& ranks) {
  std::set<std::string> names;
  for (const auto& [rank, steps] : ranks) {
    for (const auto& [name, times] : steps.phases) names.insert(name);
  }
  std::map<std::string, Figure> phases;
  for (const std::string& name : names) {
    std::vector<const std::map<std::int64_t, double>*> with;
    for (const auto& [rank, steps] : ranks) {
      const auto found = steps.phases.find(name);
      if (found != steps.phases.end()) with.push_back(&found->second);
    }
    const std::vector<double> times = slowest(with);
    phases[phase_key(name)] = times.empty() ? Figure::missing("no step of all ranks has this phase")
                                            : Figure::of(median(times));
  }
  return phases;
}

DeviceRow device_of(int rank, const RankSteps& steps, const ImportedProgram& program) {
  DeviceRow device;
  device.rank = device.process_rank = rank;
  device.host = program.host;
  device.device = fmt::format("{}:{}", program.device, rank);
  device.step_time_median_s = Figure::of(median(seconds_of(steps.whole)));
  if (steps.peak_bytes) {
    device.peak_bytes = static_cast<std::uint64_t>(*steps.peak_bytes);
  } else {
    device.peak_reason = kNotTold;
  }
  device.process_peak_rss_bytes = Figure::missing(kNotTold);
  for (const auto& [name, times] : steps.phases) {
    device.phases[phase_key(name)] = Figure::of(median(seconds_of(times)));
  }
  return device;
}

// One epoch: the file says where none begins.
void fill_epoch(const Repetition& ranks, Run& run) {
  std::vector<double> losses;
  for (const auto& [rank, steps] : ranks) {
    losses.insert(losses.end(), steps.losses.begin(), steps.losses.end());
  }
  if (losses.empty()) return;
  EpochRow epoch;
  epoch.time_s = run.time.train_s.value.value_or(0);
  epoch.samples = run.global_batch_size * run.step.count;
  epoch.samples_per_s = static_cast<double>(epoch.samples) / epoch.time_s;
  epoch.train_loss =
      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  epoch.train_accuracy = std::numeric_limits<double>::quiet_NaN();
  epoch.test_accuracy = Figure::missing(kNotTold);
  if (!std::isfinite(epoch.train_loss)) mark_diverged(run, kDivergedReason);
  run.epochs.push_back(std::move(epoch));
}

Run identity_of(const ImportedProgram& program, int repetition, int ranks) {
  Run run;
  run.strategy = program.strategy;
  run.world_size = ranks;
  run.repetition = repetition;
  run.device = program.device;
  run.device_model = program.device_model;
  run.precision = program.precision;
  run.model = program.model;
  run.optimizer_name = "unknown";
  run.per_device_batch_size = program.batch_size.value_or(0);
  run.global_batch_size = run.per_device_batch_size * ranks;
  run.scaling_mode = "weak";
  run.dataset_name = program.dataset;
  run.verification.reason = "an imported run is not verified";
  return run;
}

Run run_of(const ImportedProgram& program, int repetition, const Repetition& ranks,
           const std::string& path) {
  Run run = identity_of(program, repetition, static_cast<int>(ranks.size()));
  std::vector<const std::map<std::int64_t, double>*> whole;
  for (const auto& [rank, steps] : ranks) whole.push_back(&steps.whole);
  run.step.samples_s = slowest(whole);
  if (run.step.samples_s.empty()) {
    throw ConfigError(
        fmt::format("{}: the ranks of repetition {} have no step in common", path, repetition));
  }
  run.step.warmup = static_cast<int>(program.warmup_steps);
  run.step.count = static_cast<std::int64_t>(run.step.samples_s.size());
  run.step.time_s = summarize(run.step.samples_s);
  run.time.train_s =
      Figure::of(std::accumulate(run.step.samples_s.begin(), run.step.samples_s.end(), 0.0));
  run.phases = phases_of(ranks);
  for (const auto& [rank, steps] : ranks) run.devices.push_back(device_of(rank, steps, program));
  const char* unknown = "--batch-size was not given to import";
  run.samples_per_s = run.samples_per_s_per_device = Figure::missing(unknown);
  if (program.batch_size) {
    const double rate = static_cast<double>(*program.batch_size) / run.step.time_s->median;
    run.samples_per_s_per_device = Figure::of(rate);
    run.samples_per_s = Figure::of(rate * run.world_size);
  }
  fill_epoch(ranks, run);
  return run;
}

}  // namespace

std::vector<Run> imported_runs(const StepTimes& times, const ImportedProgram& program,
                               const std::string& path) {
  std::vector<Run> runs;
  for (const auto& [repetition, ranks] : timed_steps(times, program.warmup_steps, path)) {
    check(ranks, repetition, path);
    runs.push_back(run_of(program, repetition, ranks, path));
  }
  return runs;
}

}  // namespace ddpbench::report
