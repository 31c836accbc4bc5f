// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/scaling.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

std::pair<bool, Settings> work_of(const Run& run, bool strong) {
  return {strong, settings_of(run, strong ? kStrongWorkUse : kWeakWorkUse)};
}

constexpr const char* kWorkers = "loader_workers";

// Whether steps were replayed, "on" or "off"; "" where the option does not apply.
std::string graph_mode(const Run& run) { return option_of(run, "cuda_graph"); }

// Why the throughput of `run` means nothing; empty when it does.
std::string unusable(const Run& run) {
  if (!is_complete(run) || run.predicted) return missing_reason(run);
  if (run.verification.status == "failed") return "the verification failed";
  if (run.oversubscribed) return fmt::format("oversubscribed: {}", crowd_words(run));
  if (run.samples_per_s.value.value_or(0) <= 0) return "no throughput was measured";
  return {};
}

// A run with a planted fault is no baseline.
bool is_baseline(const Run& run) {
  return run.strategy == kBaseline && unusable(run).empty() && run.injected.empty();
}

}  // namespace

Baselines::Baselines(const Report& report) {
  for (const Run& run : report.runs) {
    any_ = any_ || run.strategy == kBaseline;
    if (!is_baseline(run)) continue;
    for (const bool strong : {false, true}) {
      Alike& alike = runs_[work_of(run, strong)][graph_mode(run)];
      alike.all.push_back(&run);
      alike.by_workers[option_of(run, kWorkers)].push_back(&run);
    }
  }
}

const std::vector<const Run*>& Baselines::of(const Run& run) const {
  const auto found = runs_.find(work_of(run, run.scaling_mode == "strong"));
  if (found == runs_.end()) return none_;
  const Alike* alike = &found->second.begin()->second;
  for (const std::string& mode : {std::string("off"), std::string("on"), graph_mode(run)})
    if (const auto at = found->second.find(mode); at != found->second.end()) alike = &at->second;
  const auto same = alike->by_workers.find(option_of(run, kWorkers));
  return same == alike->by_workers.end() ? alike->all : same->second;
}

std::optional<double> Baselines::throughput(const Run& run) const {
  std::vector<double> rates =
      mapped(of(run), [](const Run* single) { return *single->samples_per_s.value; });
  return rates.empty() ? std::nullopt : std::optional(median_rate(std::move(rates)));
}

std::string Baselines::why_none(const Run& run) const {
  if (!any_) return "no single run in this report";
  if (runs_.empty()) return "no usable single run in this report";
  const bool strong = run.scaling_mode == "strong";
  const std::int64_t batch = strong ? run.global_batch_size : run.per_device_batch_size;
  return fmt::format("no single run with the same device, network and {} batch size ({})",
                     strong ? "global" : "per-device",
                     batch > 0 ? std::to_string(batch) : "not recorded");
}

void fill_scaling(Report& report) {
  const Baselines baselines(report);
  for (Run& run : report.runs) {
    run.scaling.reset();
    run.scaling_reason = unusable(run);
    if (!run.scaling_reason.empty()) continue;
    if (const auto single = baselines.throughput(run)) {
      const double speedup = *run.samples_per_s.value / *single;
      run.scaling = Scaling{kBaseline, speedup, speedup / run.world_size};
    } else {
      run.scaling_reason = baselines.why_none(run);
    }
  }
}

}  // namespace ddpbench::report
