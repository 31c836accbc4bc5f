// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/why/why_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/math.h"
#include "base/text.h"
#include "reports/data/settings.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::report {
namespace {

// Below both, a device has too little work and a collective too few bytes to make latency
// negligible: to start and end a collective or a parallel loop costs 10 to 100 us.
constexpr double kTinyCompute_s = 1e-3;
constexpr double kTinyBytes = 256 * 1024;

// The parts that a lack of work makes large. A persistent straggler has another cause.
double latency_loss(const StepParts& lost, const Decomposition& split) {
  const double waiting = split.stragglers.ranks.empty() ? lost.straggler_wait_s : 0;
  return lost.host_s + lost.comm_exposed_s + lost.sync_batch_norm_s + lost.server_wait_s + waiting;
}

bool is_tiny(const Run& run, const StepParts& lost, const Decomposition& split) {
  const double compute = split.ideal ? split.ideal->compute_s() : split.rank.compute_s();
  return compute < kTinyCompute_s && gradient_bytes(run) <= kTinyBytes &&
         2 * latency_loss(lost, split) > lost.step_s;
}

Cause communication_cause(const Run& run, const Decomposition& split) {
  if (strategy_row(run.strategy).through_primary) return Cause::primary_device;
  if (run.servers > 0 && run.servers < run.world_size) return Cause::servers;
  // If it takes longer than the backward beside it, even perfect overlap leaves some exposed.
  return split.rank.comm_s > split.rank.backward_s ? Cause::slow_link
                                                   : Cause::exposed_communication;
}

Cause waiting_cause(const Decomposition& split) {
  return split.stragglers.ranks.empty() ? Cause::imbalance : Cause::slow_rank;
}

// Splitting a smaller bucket does not help: the latency of its collective stays.
constexpr double kSplittableBytes = 512 * 1024;

bool is_off(const Run& run, const char* option) {
  const auto found = run.strategy_options.find(option);
  return found != run.strategy_options.end() && found->second == "off";
}

// The option that sets the batch.
const char* batch_option(const Run& run) {
  return run.scaling_mode == "strong" ? "--global-batch-size" : "--batch-size";
}

std::string more_work(const Run& run) {
  return fmt::format("a larger {} puts more compute beside the same bytes", batch_option(run));
}

// A quarter of `bytes`, in quarters of a MiB.
double smaller_mb(double bytes) { return std::max(0.25, std::round(bytes / kMiB) / 4); }

// Whether the value of `option` in the run is above `mb` or not known.
bool is_larger(const Run& run, const char* option, double mb) {
  const auto found = run.strategy_options.find(option);
  if (found == run.strategy_options.end()) return true;
  const auto value = number_in<double>(found->second);
  return !value || *value > mb;
}

std::string bucket_advice(const Run& run, const Decomposition& split) {
  if (is_off(run, "overlap")) return "try --overlap=on";
  const LateBucket late = latest_bucket(split);
  if (late.row == nullptr || late.row != &split.device->buckets.back()) return more_work(run);
  const auto bytes = static_cast<double>(late.row->bytes);
  if (bytes < kSplittableBytes) {
    return fmt::format("it is too small to be split, its latency remains; {}", more_work(run));
  }
  const bool first = split.device->buckets.size() == 1;
  const double mb = smaller_mb(bytes);
  if (!is_larger(run, first ? "first_bucket_mb" : "bucket_cap_mb", mb)) return more_work(run);
  return fmt::format("try --{}-mb={}", first ? "first-bucket" : "bucket-cap", mb);
}

std::string oversubscription_advice(const Report& report, const Run& run) {
  const bool cuda = run.device == "cuda";
  const auto gpus = static_cast<int>(report.environment.gpus.size());
  const int cores = report.environment.cpu.cores / std::max(1, run.threads_per_device);
  if (has_cpu_servers(run) && run.world_size <= gpus) {
    if (cores < 1) return "use a machine with more cores";
    return fmt::format("at most --servers={} fit beside the workers here", cores);
  }
  const int servers_there = has_cpu_servers(run) ? 0 : run.servers;
  const int devices = (cuda ? gpus : cores) - servers_there;
  if (devices < 1 && cuda && servers_there > 0 && gpus > 0) {
    return "use a machine with more GPUs, or --server-device=cpu";
  }
  if (devices < 1) return fmt::format("use a machine with more {}", cuda ? "GPUs" : "cores");
  return fmt::format("at most --gpus={} fit here", devices);
}

std::string slow_rank_advice(const Decomposition& split) {
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

std::string_view to_string(Cause cause) {
  constexpr std::array<std::string_view, 17> kNames = {"scales",
                                                       "oversubscription",
                                                       "busy_machine",
                                                       "slow_rank",
                                                       "imbalance",
                                                       "starved_input",
                                                       "tiny_network",
                                                       "slow_link",
                                                       "exposed_communication",
                                                       "primary_device",
                                                       "sync_batch_norm",
                                                       "servers",
                                                       "slowed_by_overlap",
                                                       "slowed_compute",
                                                       "host_overhead",
                                                       "small_losses",
                                                       "unknown"};
  return kNames.at(static_cast<std::size_t>(cause));
}

StepParts ranked_losses(const Decomposition& split) {
  if (split.ideal) return split.lost;
  StepParts lost = split.parts;
  lost.step_s -= lost.compute_s;
  lost.compute_s = 0;
  return lost;
}

Loss largest_loss(const Run& run, const Decomposition& split) {
  const StepParts lost = ranked_losses(split);
  const double through_servers = run.servers > 0 ? lost.server_wait_s : 0;
  const std::array<Loss, 7> losses = {
      Loss{lost.input_wait_s, Cause::starved_input, "waiting for input"},
      {lost.straggler_wait_s, waiting_cause(split), "waiting for the slowest rank"},
      {lost.comm_exposed_s + through_servers, communication_cause(run, split),
       "exposed communication"},
      {lost.sync_batch_norm_s, Cause::sync_batch_norm, "exchanging statistics of batch norm"},
      {lost.overlap_slowed_s, Cause::slowed_by_overlap, "compute slowed by overlap"},
      {lost.compute_slowed_s, Cause::slowed_compute, "compute beyond single's"},
      {lost.host_s, Cause::host_overhead, "host and launch overhead"}};
  return *std::ranges::max_element(losses, {}, &Loss::seconds);
}

double gradient_bytes(const Run& run) {
  constexpr double kFloatBytes = 4;  // gradients are fp32 in every precision
  return static_cast<double>(run.parameters) * kFloatBytes;
}

LateBucket latest_bucket(const Decomposition& split) {
  LateBucket latest;
  if (split.device == nullptr) return latest;
  double busy_until = split.rank.backward_end_s();
  for (const BucketRow& row : split.device->buckets) {
    const double exposed = row.end_s - std::max(row.arrived_s, busy_until);
    if (exposed > latest.exposed_s) latest = {&row, exposed};
    busy_until = std::max(busy_until, row.end_s);
  }
  return latest;
}

Cause find_cause(const Run& run, const Decomposition& split) {
  // First: devices that take turns measure the scheduler, however well the run scales.
  if (run.oversubscribed) return Cause::oversubscription;
  if (!split.missing.empty()) return Cause::unknown;
  const StepParts lost = ranked_losses(split);
  const double negligible_s = kNegligibleShare * split.parts.step_s;
  if (lost.step_s <= negligible_s) return split.ideal ? Cause::scales : Cause::unknown;
  // What other work took shows as waiting, slow compute or host time, and as any of these by
  // chance. Of a run with a planted fault the cause is known.
  if (run.injected.empty() && run.conditions && !other_work(*run.conditions).empty())
    return Cause::busy_machine;
  if (is_tiny(run, lost, split)) return Cause::tiny_network;
  const Loss largest = largest_loss(run, split);
  return largest.seconds < negligible_s ? Cause::small_losses : largest.cause;
}

std::string cause_advice(Cause cause, const Report& report, const Run& run,
                         const Decomposition& split) {
  switch (cause) {
    case Cause::scales:
      return {};
    case Cause::oversubscription:
      return oversubscription_advice(report, run);
    case Cause::busy_machine:
      return "measure on an idle machine";
    case Cause::slow_rank:
      return slow_rank_advice(split);
    case Cause::imbalance:
      return fmt::format("keep other programs off the machine; a larger {} evens steps out",
                         batch_option(run));
    case Cause::starved_input:
      return "try more --loader-workers";
    case Cause::tiny_network:
      return fmt::format("one device is the right choice, or a larger {}", batch_option(run));
    case Cause::slow_link:
      return is_off(run, "overlap") ? "try --overlap=on; " + more_work(run)
                                    : fmt::format("{}; else a faster link", more_work(run));
    case Cause::exposed_communication:
      return bucket_advice(run, split);
    case Cause::primary_device:
      return "try --strategy=ddp";
    case Cause::sync_batch_norm:
      return fmt::format("a larger {}, for which --sync-batch-norm=off often learns as well",
                         batch_option(run));
    case Cause::servers:
      return servers(run);
    case Cause::slowed_by_overlap:
      return "compare with --overlap=off, or leave a core to communication";
    case Cause::slowed_compute:
      return run.scaling_mode == "strong" ? "a larger --global-batch-size"
                                          : "compare with fewer --gpus on an idle machine";
    case Cause::host_overhead:
      return more_work(run);
    case Cause::small_losses:
      return {};
    case Cause::unknown:
      break;
  }
  if (!split.missing.empty()) return "try --observe=on";
  return "add single to --strategy";
}

}  // namespace ddpbench::report
