// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The sentence of each cause: the loss with its figure, and what in the report shows the cause.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "reports/data/settings.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"
#include "reports/why/why_cause.h"

namespace ddpbench::report {
namespace {

// Steady steps scatter by a few percent. The more they scatter, the less medians of parts say.
constexpr double kMuchScatter = 0.2;

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f} ms", ms, ms < 0.1 ? 3 : ms < 10 ? 2 : 1);
}

// Rounded, in units of 1000, as bandwidths are.
std::string rounded_size(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} bytes", bytes);
  return bytes < 1e6 ? fmt::format("{:.0f} kB", bytes / 1e3)
                     : fmt::format("{:.1f} MB", bytes / 1e6);
}

// "exposed all-reduce is 41 % of the step (12.3 of 30.0 ms)"
std::string share_of_step(const std::string& what, double seconds, const Decomposition& split) {
  const double step_s = split.parts.step_s;
  return fmt::format("{} is {:.0f} % of the step ({} of {})", what, 100 * seconds / step_s,
                     milliseconds(seconds), milliseconds(step_s));
}

std::string collective_name(const Run& run) {
  std::string name(strategy_row(run.strategy).collective);
  std::ranges::replace(name, '_', '-');
  return name.empty() ? "communication" : name;
}

std::string rank_names(const Stragglers& stragglers) {
  std::vector<std::string> names;
  for (const DeviceRow* device : stragglers.ranks) {
    names.push_back(fmt::format("{} ({} on {})", device->rank, device->device, device->host));
  }
  return fmt::format("{} {}", plural(names.size(), "rank"), fmt::join(names, ", "));
}

std::string slow_rank(const Decomposition& split) {
  const Stragglers& stragglers = split.stragglers;
  const std::string first = share_of_step(fmt::format("waiting for {}", rank_names(stragglers)),
                                          split.parts.straggler_wait_s, split);
  if (stragglers.phase.empty()) {
    return first +
           ": its gradients arrive last in most steps, though none of its phases takes longer";
  }
  return fmt::format("{}: {} takes {} longer there than on the others", first, stragglers.phase,
                     milliseconds(stragglers.longer_s));
}

std::string imbalance(const Decomposition& split) {
  return share_of_step("waiting for the slowest rank", split.parts.straggler_wait_s, split) +
         ": no rank is always the last one, their times change from step to step";
}

// "1.7 MB take 24.1 ms (busbw 0.12 GB/s)"
std::string transfer(const Run& run, const Decomposition& split) {
  const double bytes = gradient_bytes(run);
  std::string text =
      fmt::format("{} of gradients take {}", rounded_size(bytes), milliseconds(split.rank.comm_s));
  const std::string collective(strategy_row(run.strategy).collective);
  if (!collective.empty() && split.rank.comm_s > 0) {
    const double busbw = algorithm_bandwidth_gb_per_s(bytes, split.rank.comm_s) *
                         bus_bandwidth_factor(collective, run.world_size);
    text += fmt::format(" (busbw {:.2g} GB/s)", busbw);
  }
  return text;
}

std::string slow_link(const Run& run, const Decomposition& split) {
  return fmt::format(
      "{}: {}, longer than the {} of backward that could hide it",
      share_of_step("exposed " + collective_name(run), split.parts.comm_exposed_s, split),
      transfer(run, split), milliseconds(split.rank.backward_s));
}

std::string exposed_communication(const Run& run, const Decomposition& split) {
  const std::string first =
      share_of_step("exposed " + collective_name(run), split.parts.comm_exposed_s, split);
  const LateBucket late = latest_bucket(split);
  if (late.row == nullptr) return first + ": it runs while nothing is computed";
  const bool last = late.row == &split.device->buckets.back();
  const bool after = late.row->start_s >= 0.99 * split.rank.backward_end_s();
  return fmt::format(
      "{}: {} of {} {}", first,
      split.device->buckets.size() == 1 ? "the only bucket"
      : last                            ? std::string("the last bucket")
                                        : fmt::format("bucket {}", late.row->bucket),
      rounded_size(static_cast<double>(late.row->bytes)),
      after ? "starts after backward ends" : "is still in flight when backward ends");
}

constexpr const char* kThroughPrimary = "moving batch, parameters and gradients";

// The transfers of dp: they add up to the part of the step.
std::string transfers_text(const Decomposition& split) {
  std::vector<std::string> transfers;
  for (const auto& [name, seconds] : split.transfers) {
    const double scale =
        split.rank.comm_exposed_s > 0 ? split.parts.comm_exposed_s / split.rank.comm_exposed_s : 0;
    transfers.push_back(fmt::format("{} {}", name, milliseconds(scale * seconds)));
  }
  return fmt::format("{}", fmt::join(transfers, ", "));
}

std::string primary_device(const Decomposition& split) {
  std::string text = fmt::format(
      "{}: {} run one after the other through device 0, with nothing computed meanwhile",
      share_of_step(kThroughPrimary, split.parts.comm_exposed_s, split), transfers_text(split));
  if (split.others_idle_s > 0) {
    text +=
        fmt::format("; the other devices wait or idle for {}", milliseconds(split.others_idle_s));
  }
  return text;
}

// dp: what device 0 waits for when it gathers outputs and gradients.
std::string late_replicas(const Decomposition& split) {
  return fmt::format(
      "{}: they end forward or backward after device 0, none of them always by as much; {} takes "
      "{}",
      share_of_step("waiting for the other replicas", split.parts.straggler_wait_s, split),
      kThroughPrimary, milliseconds(split.parts.comm_exposed_s));
}

std::string servers(const Run& run, const Decomposition& split) {
  return fmt::format("{}: {} workers share {}, which takes {} from each in turn",
                     share_of_step("pushing to and waiting for the server",
                                   split.parts.server_wait_s + split.parts.comm_exposed_s, split),
                     run.world_size, counted(run.servers, "server"),
                     rounded_size(gradient_bytes(run) / std::max(1, run.servers)));
}

std::string ratio(double slow, double fast) {
  return fast > 0 ? fmt::format("{:.2f}", slow / fast) : "?";
}

std::string slowed_compute(const Run& run, const Decomposition& split) {
  const std::string first =
      share_of_step("compute beyond single's", split.parts.compute_slowed_s, split);
  const std::string figures = fmt::format("forward takes {} times single's, backward {} times",
                                          ratio(split.rank.forward_s, split.ideal->forward_s),
                                          ratio(split.rank.backward_s, split.ideal->backward_s));
  if (run.scaling_mode == "strong") {
    return fmt::format(
        "{}: {} (of its share), as a batch of {} a device computes less efficiently "
        "than one of {}, or the devices slow each other down",
        first, figures, run.per_device_batch_size, run.global_batch_size);
  }
  return fmt::format(
      "{}: {} with the same batch, so the devices share something: memory bandwidth, "
      "caches, clock, or cores with other programs",
      first, figures);
}

std::string slowed_by_overlap(const Decomposition& split) {
  return fmt::format(
      "{}: backward takes {} times single's, forward only {}, while {} of "
      "communication run beside it",
      share_of_step("compute slowed by overlapped communication", split.parts.overlap_slowed_s,
                    split),
      ratio(split.rank.backward_s, split.ideal->backward_s),
      ratio(split.rank.forward_s, split.ideal->forward_s),
      milliseconds(split.rank.comm_s - split.rank.comm_exposed_s));
}

std::string tiny_network(const Run& run, const Decomposition& split) {
  const StepParts& parts = split.parts;
  const double overhead_s = parts.comm_exposed_s + parts.sync_batch_norm_s + parts.server_wait_s +
                            parts.straggler_wait_s + parts.host_s;
  return fmt::format(
      "the network is too small: {} of compute a step meet {} of latency and launch overhead "
      "(moving {}, waiting and host work), {:.0f} % of the step",
      milliseconds(split.rank.compute_s()), milliseconds(overhead_s),
      rounded_size(gradient_bytes(run)), 100 * overhead_s / parts.step_s);
}

std::string sync_batch_norm(const Decomposition& split) {
  return share_of_step("exchanging statistics of batch norm", split.parts.sync_batch_norm_s,
                       split) +
         ": in each such layer, forward and backward, the devices wait for each other, and nothing "
         "can hide it";
}

std::string small_losses(const Run& run, const Decomposition& split) {
  const Loss largest = largest_loss(run, split);
  return fmt::format("{:.0f} % is lost in several small parts; the largest is {}, {:.0f} %",
                     100 * ranked_losses(split).step_s / split.parts.step_s, largest.title,
                     100 * largest.seconds / split.parts.step_s);
}

std::string oversubscription(const Report& report, const Run& run) {
  const auto gpus = static_cast<int>(report.environment.gpus.size());
  const bool apart = has_cpu_servers(run);
  const bool cuda = run.device == "cuda" && !(apart && run.world_size <= gpus);
  std::string workers = counted(run.world_size, "worker");
  if (apart && !cuda) workers = counted(run.servers, "server");
  if (!apart && run.servers > 0) workers += " and " + counted(run.servers, "server");
  const int there = cuda ? gpus : report.environment.cpu.cores;
  return fmt::format("oversubscribed: {}{} share {} and take turns, so this measures the scheduler",
                     workers, cuda ? "" : " of " + counted(run.threads_per_device, "thread"),
                     there > 0 ? counted(there, cuda ? "GPU" : "core")
                               : fmt::format("fewer {}s", cuda ? "GPU" : "core"));
}

std::string busy_machine(const Run& run, const Decomposition& split) {
  return fmt::format("{} during the run: {}, and it is not known how much of it they caused",
                     other_work(*run.conditions),
                     share_of_step("what is lost", ranked_losses(split).step_s, split));
}

std::string scales(const Decomposition& split) {
  const double efficiency = split.ideal->step_s / split.parts.step_s;
  return fmt::format("scales: {:.0f} % efficiency; nothing large to gain", 100 * efficiency);
}

std::string unknown(const Decomposition& split) {
  if (!split.missing.empty()) return "cannot be told: " + split.missing;
  return fmt::format("{}; whether a single device computes faster cannot be told",
                     share_of_step("compute", split.parts.compute_s, split));
}

std::string starved_input(const Decomposition& split) {
  return share_of_step("waiting for input", split.parts.input_wait_s, split) +
         ": the loader assembles batches slower than the devices take them";
}

std::string host_overhead(const Decomposition& split) {
  return share_of_step("host and launch overhead", split.parts.host_s, split) +
         (split.spread > kMuchScatter
              ? ": time between the phases, or phases that are long in some steps only"
              : ": it passes between the phases, on no device and on no link");
}

std::string plain_sentence(Cause cause, const Report& report, const Run& run,
                           const Decomposition& split) {
  switch (cause) {
    case Cause::scales:
      return scales(split);
    case Cause::oversubscription:
      return oversubscription(report, run);
    case Cause::slow_rank:
      return slow_rank(split);
    case Cause::imbalance:
      return strategy_row(run.strategy).through_primary ? late_replicas(split) : imbalance(split);
    case Cause::busy_machine:
      return busy_machine(run, split);
    case Cause::starved_input:
      return starved_input(split);
    case Cause::tiny_network:
      return tiny_network(run, split);
    case Cause::slow_link:
      return slow_link(run, split);
    case Cause::exposed_communication:
      return exposed_communication(run, split);
    case Cause::primary_device:
      return primary_device(split);
    case Cause::sync_batch_norm:
      return sync_batch_norm(split);
    case Cause::servers:
      return servers(run, split);
    case Cause::slowed_by_overlap:
      return slowed_by_overlap(split);
    case Cause::slowed_compute:
      return slowed_compute(run, split);
    case Cause::host_overhead:
      return host_overhead(split);
    case Cause::small_losses:
      return small_losses(run, split);
    case Cause::unknown:
      break;
  }
  return unknown(split);
}

}  // namespace

std::string cause_sentence(Cause cause, const Report& report, const Run& run,
                           const Decomposition& split) {
  std::string text = plain_sentence(cause, report, run, split);
  const bool compares = cause != Cause::oversubscription && split.missing.empty();
  if (!split.no_baseline.empty() && compares) {
    text += fmt::format(" (no baseline: {})", split.no_baseline);
  }
  if (split.spread > kMuchScatter && split.missing.empty()) {
    text += fmt::format(" (step times scatter by {:.0f} %: other load may blur this)",
                        100 * split.spread);
  }
  return text;
}

}  // namespace ddpbench::report
