// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What would help: options of the program where there are some.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/why/why_cause.h"

namespace ddpbench::report {
namespace {

// A bucket below this is not worth splitting: its collective's latency stays.
constexpr double kSplittableBytes = 512 * 1024;
constexpr double kMiB = 1024 * 1024;

bool is_off(const Run& run, const char* option) {
  const auto found = run.strategy_options.find(option);
  return found != run.strategy_options.end() && found->second == "off";
}

const char* more_work() { return "a larger --batch-size puts more compute beside the same bytes"; }

// A quarter of `bytes`, in quarters of a MiB.
double smaller_mb(double bytes) { return std::max(0.25, std::round(bytes / kMiB) / 4); }

std::string bucket_advice(const Run& run, const Decomposition& split) {
  if (is_off(run, "overlap")) return "try --overlap=on";
  const LateBucket late = latest_bucket(split);
  if (late.row == nullptr || late.row != &split.device->buckets.back()) return more_work();
  const auto bytes = static_cast<double>(late.row->bytes);
  if (bytes < kSplittableBytes) {
    return fmt::format("it is too small to be split, its latency remains; {}", more_work());
  }
  const bool first = split.device->buckets.size() == 1;
  return fmt::format("try --{}-mb={}", first ? "first-bucket" : "bucket-cap", smaller_mb(bytes));
}

std::string oversubscription(const Report& report, const Run& run) {
  const int cores = report.environment.cpu.cores;
  const int threads = std::max(1, run.threads_per_device);
  const int devices = cores / threads - run.servers;
  if (devices < 1) return "use a machine with more cores";
  return fmt::format("at most --gpus={} fit here", devices);
}

std::string slow_rank(const Decomposition& split) {
  const std::string& phase = split.stragglers.phase;
  if (phase == "input wait") return "look at that rank's storage, or try more --loader-workers";
  if (phase.empty()) return "look at that rank's link, and at what else runs on its cores";
  return "look at that rank's clock, memory and what else runs on its cores";
}

std::string servers(const Run& run) {
  if (run.servers < run.world_size) {
    return fmt::format("try --servers={} (each needs a core), or --strategy=ddp", run.world_size);
  }
  return "try --strategy=ddp";
}

}  // namespace

std::string cause_advice(Cause cause, const Report& report, const Run& run,
                         const Decomposition& split) {
  switch (cause) {
    case Cause::scales:
      return {};
    case Cause::oversubscription:
      return oversubscription(report, run);
    case Cause::slow_rank:
      return slow_rank(split);
    case Cause::imbalance:
      return "keep other programs off the machine; a larger --batch-size evens steps out";
    case Cause::starved_input:
      return "try more --loader-workers";
    case Cause::tiny_network:
      return "one device is the right choice, or a larger --batch-size";
    case Cause::slow_link:
      return is_off(run, "overlap") ? "try --overlap=on; " + std::string(more_work())
                                    : fmt::format("{}; else a faster link", more_work());
    case Cause::exposed_communication:
      return bucket_advice(run, split);
    case Cause::primary_device:
      return "try --strategy=ddp";
    case Cause::servers:
      return servers(run);
    case Cause::slowed_by_overlap:
      return "compare with --overlap=off, or leave a core to communication";
    case Cause::slowed_compute:
      return run.scaling_mode == "strong" ? "a larger --global-batch-size"
                                          : "compare with fewer --gpus on an idle machine";
    case Cause::host_overhead:
      return more_work();
    case Cause::unknown:
      break;
  }
  if (!split.missing.empty()) return "try --observe=on";
  return "add single to --strategy";
}

}  // namespace ddpbench::report
