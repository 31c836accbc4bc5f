// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Speed-up and efficiency against the `single` run of the same report, or of another one.
#include <algorithm>
#include <optional>

#include "kernels/runtime/error.h"
#include "reports/metrics.h"
#include "reports/report_view.h"

namespace ddpbench::report {
namespace {

bool same_batch(const Run& run, const Run& single) {
  if (run.scaling_mode == "strong") return run.global_batch_size == single.global_batch_size;
  return run.per_device_batch_size == single.per_device_batch_size &&
         run.accumulation_steps == single.accumulation_steps;
}

bool same_work(const Run& run, const Run& single) {
  return run.device == single.device && run.device_model == single.device_model &&
         run.threads_per_device == single.threads_per_device && run.model == single.model &&
         run.precision == single.precision && run.dataset_name == single.dataset_name;
}

// Why `run` has no throughput that means anything; empty when it has.
std::string unusable(const Run& run) {
  if (run.status == Status::failed) return "the run failed";
  if (run.status == Status::skipped) return "the run was skipped";
  if (run.status == Status::interrupted) return "the run was interrupted";
  if (run.verification.status == "failed") return "the verification failed";
  if (run.oversubscribed) return "oversubscribed: more compute threads than cores";
  if (!run.samples_per_s.value) return "no throughput was measured";
  return {};
}

// A planted slowness makes a run unfit to measure others against.
bool is_baseline(const Run& run) {
  return run.strategy == kBaseline && unusable(run).empty() && run.injected.empty();
}

// Median throughput over the repetitions of the `single` run that does the same work as `run`.
std::optional<double> baseline_throughput(const Report& report, const Run& run) {
  std::vector<double> throughputs;
  for (const Run* single : baseline_runs(report, run)) {
    throughputs.push_back(*single->samples_per_s.value);
  }
  if (throughputs.empty()) return std::nullopt;
  return median(std::move(throughputs));
}

}  // namespace

std::vector<const Run*> baseline_runs(const Report& report, const Run& run) {
  std::vector<const Run*> runs;
  for (const Run& other : report.runs) {
    if (is_baseline(other) && same_work(run, other) && same_batch(run, other)) {
      runs.push_back(&other);
    }
  }
  return runs;
}

std::string no_baseline_reason(const Report& report, const Run& run) {
  bool any = false, usable = false;
  for (const Run& other : report.runs) {
    any = any || other.strategy == kBaseline;
    usable = usable || is_baseline(other);
  }
  if (!any) return "no single run in this report";
  if (!usable) return "no usable single run in this report";
  const bool strong = run.scaling_mode == "strong";
  return fmt::format("no single run with the same device, network and {} batch size ({})",
                     strong ? "global" : "per-device",
                     strong ? run.global_batch_size : run.per_device_batch_size);
}

Scaling scaling(double samples_per_s, double single_samples_per_s, int world_size) {
  ensure(single_samples_per_s > 0, "scaling against {} samples/s", single_samples_per_s);
  ensure(world_size >= 1, "scaling of a world of {}", world_size);
  const double speedup = samples_per_s / single_samples_per_s;
  return {kBaseline, speedup, speedup / world_size};
}

void fill_scaling(Report& report) {
  for (Run& run : report.runs) {
    run.scaling.reset();
    run.scaling_reason = unusable(run);
    if (!run.scaling_reason.empty()) continue;
    if (const auto single = baseline_throughput(report, run)) {
      run.scaling = scaling(*run.samples_per_s.value, *single, run.world_size);
    } else {
      run.scaling_reason = no_baseline_reason(report, run);
    }
  }
}

namespace {

bool has_single(const Report& report) {
  return std::ranges::any_of(report.runs, [](const Run& run) { return run.strategy == kBaseline; });
}

bool same_gpu(const GpuInfo& a, const GpuInfo& b) {
  return a.name == b.name && a.driver == b.driver && a.memory_bytes == b.memory_bytes;
}

// Same build on the same machine: anything else would compare more than strategies.
bool comparable(const Report& a, const Report& b) {
  const Environment &x = a.environment, &y = b.environment;
  return a.generator.version == b.generator.version &&
         a.generator.git_commit == b.generator.git_commit &&
         a.generator.git_dirty == b.generator.git_dirty && x.hosts == y.hosts &&
         x.cpu.model == y.cpu.model && x.cpu.processors == y.cpu.processors &&
         std::ranges::equal(x.gpus, y.gpus, same_gpu);
}

// The first other file that has the `single` run for `run`.
void measure_against_others(std::span<const ReportFile> files, const Report& own, Run& run) {
  for (const ReportFile& file : files) {
    if (!has_single(file.report) || !comparable(own, file.report)) continue;
    const auto single = baseline_throughput(file.report, run);
    if (!single) continue;
    run.scaling = scaling(*run.samples_per_s.value, *single, run.world_size);
    run.scaling->baseline = fmt::format("{} of {}", kBaseline, file.name);
    run.scaling_reason.clear();
    return;
  }
  run.scaling_reason =
      "no single run in this report, and none of the same build, machine and work in the others";
}

}  // namespace

void complete_scaling(std::span<ReportFile> files) {
  if (files.size() < 2) return;
  for (ReportFile& file : files) {
    if (has_single(file.report)) continue;  // measured, or with a reason that stands
    for (Run& run : file.report.runs) {
      if (!run.scaling && unusable(run).empty()) measure_against_others(files, file.report, run);
    }
  }
}

}  // namespace ddpbench::report
