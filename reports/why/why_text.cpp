// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A row for each cause: its name, the sentence with the loss and what in the report shows the
// cause, and what would help.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "reports/data/settings.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/noise.h"
#include "reports/why/why_cause.h"

namespace ddpbench::report {
namespace {

// Steady steps scatter by a few percent. The more they scatter, the less medians of parts say.
constexpr double kMuchScatter = 0.2;
// Splitting a smaller bucket does not help: the latency of its collective stays.
constexpr double kSplittableBytes = 512 * 1024;

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

std::string ratio(double slow, double fast) {
  return fast > 0 ? fmt::format("{:.2f}", slow / fast) : "?";
}

// "all-reduce not hidden is 41 % of the step (12.3 of 30.0 ms)"
std::string share_of_step(const std::string& what, double seconds, const Case& c) {
  const double step_s = c.split.parts.step_s;
  return fmt::format("{} is {:.0f} % of the step ({} of {})", what, 100 * seconds / step_s,
                     milliseconds(seconds), milliseconds(step_s));
}

std::string exposed_share(const Case& c) {
  std::string name(strategy_row(c.run.strategy).collective);
  std::ranges::replace(name, '_', '-');
  return share_of_step((name.empty() ? "communication" : name) + " not hidden",
                       c.split.parts.comm_exposed_s, c);
}

// The option that sets the batch.
const char* batch_option(const Case& c) {
  return c.run.scaling_mode == "strong" ? "--global-batch-size" : "--batch-size";
}

std::string more_work(const Case& c) {
  return fmt::format("a larger {} puts more compute beside the same bytes", batch_option(c));
}

std::string scales(const Case& c) {
  const double efficiency = c.split.ideal->step_s / c.split.parts.step_s;
  if (beyond_ideal(c.run.world_size * efficiency, c.run.world_size)) {
    return fmt::format("baseline disturbed: single's step is {:.2f} times as long, its work is not",
                       efficiency);
  }
  return fmt::format("scales: {:.0f} % efficiency; nothing large to gain", 100 * efficiency);
}

std::string oversubscription(const Case& c) {
  return fmt::format("oversubscribed: {} and take turns, so this measures the scheduler",
                     shared_words(c.report, c.run));
}

std::string busy_machine(const Case& c) {
  const double lost_s = ranked_losses(c.split).step_s;
  return fmt::format("{}, but {}",
                     lost_s > kNegligibleShare * c.split.parts.step_s
                         ? share_of_step("what is lost", lost_s, c)
                         : "no large loss",
                     other_work(c.run));
}

std::string slow_rank(const Case& c) {
  const Stragglers& stragglers = c.split.stragglers;
  const std::string names = joined(stragglers.ranks, ", ", [](const DeviceRow* device) {
    return fmt::format("{} ({} on {})", device->rank, device->device, device->host);
  });
  std::string text = share_of_step(
      fmt::format("waiting for {} {}", plural(stragglers.ranks.size(), "rank"), names),
      c.split.parts.straggler_wait_s, c);
  text += stragglers.phase.empty()
              ? ": its gradients arrive last in most steps, though none of its phases takes longer"
              : fmt::format(": {} takes {} longer there than on the others", stragglers.phase,
                            milliseconds(stragglers.longer_s));
  // Ranks of several hosts do not see what else runs there.
  const bool is_seen = c.run.conditions && c.run.conditions->other_load_ratio.value;
  if (!is_seen && c.run.injected.empty())
    text += "; other load was not measured; this may be all of it";
  return text;
}

std::string tiny_network(const Case& c) {
  const StepParts& parts = c.split.parts;
  const double overhead_s = parts.comm_exposed_s + parts.sync_batch_norm_s + parts.server_wait_s +
                            parts.straggler_wait_s + parts.host_s;
  return fmt::format(
      "the network is too small: {} of compute meet {} of latency and overhead "
      "(moving {}, waiting and host work), {:.0f} % of the step",
      milliseconds(c.split.rank.compute_s()), milliseconds(overhead_s),
      rounded_size(gradient_bytes(c.run)), 100 * overhead_s / parts.step_s);
}

std::string gathered_units(const Case& c) {
  return fmt::format(
      "{}: {} of gradients, and as many of weights twice, take {}, beside {} of forward and "
      "backward",
      exposed_share(c), rounded_size(gradient_bytes(c.run)), milliseconds(c.split.rank.comm_s),
      milliseconds(c.split.rank.forward_s + c.split.rank.backward_s));
}

// "...: 1.7 MB of gradients take 24.1 ms (busbw 0.12 GB/s), longer than ..."
std::string slow_link(const Case& c) {
  if (strategy_row(c.run.strategy).gathers_units) return gathered_units(c);
  const double bytes = gradient_bytes(c.run), comm_s = c.split.rank.comm_s;
  const std::string collective(strategy_row(c.run.strategy).collective);
  std::string bandwidth;
  if (!collective.empty() && comm_s > 0 && !has_hook(c.run)) {
    bandwidth =
        fmt::format(" (busbw {:.2g} GB/s)", algorithm_bandwidth_gb_per_s(bytes, comm_s) *
                                                bus_bandwidth_factor(collective, c.run.world_size));
  }
  return fmt::format(
      "{}: {} of gradients take {}{}, longer than the {} of backward that could hide it",
      exposed_share(c), rounded_size(bytes), milliseconds(comm_s), bandwidth,
      milliseconds(c.split.rank.backward_s));
}

// Whether the bucket is one of weights: gradients are ready before the backward ends.
bool is_of_weights(const Case& c, const LateBucket& late) {
  return strategy_row(c.run.strategy).gathers_weights && late.row != nullptr &&
         late.row->ready_s > c.split.rank.backward_end_s();
}

std::string exposed_communication(const Case& c) {
  if (const int cycle = cycle_of(c.run); cycle > 0)
    return fmt::format("{}: averaging {} of weights every {}, with nothing computed meanwhile",
                       exposed_share(c), rounded_size(gradient_bytes(c.run)),
                       counted(cycle, "step"));
  if (strategy_row(c.run.strategy).gathers_units) return gathered_units(c);
  const LateBucket late = latest_bucket(c.split);
  if (late.row == nullptr) return exposed_share(c) + ": it runs while nothing is computed";
  if (is_of_weights(c, late))
    return exposed_share(c) +
           ": gathering weights after the update, with nothing computed meanwhile";
  const std::vector<BucketRow>& buckets = c.split.device->buckets;
  const bool after = late.row->start_s >= 0.99 * c.split.rank.backward_end_s();
  return fmt::format(
      "{}: {} of {} {}", exposed_share(c),
      buckets.size() == 1           ? "the only bucket"
      : late.row == &buckets.back() ? std::string("the last bucket")
                                    : fmt::format("bucket {}", late.row->bucket),
      rounded_size(static_cast<double>(late.row->bytes)),
      after ? "starts after backward ends" : "is still in flight when backward ends");
}

std::string smaller_buckets(const Case& c) {
  if (const int cycle = cycle_of(c.run); cycle > 0)
    return fmt::format("try --sync-every={}, which goes further from one device", 2 * cycle);
  if (option_of(c.run, "overlap") == "off") return "try --overlap=on";
  if (strategy_row(c.run.strategy).gathers_units) return "try another --unit-mb";
  if (has_hook(c.run)) return more_work(c);  // buckets are capped before they are encoded
  const LateBucket late = latest_bucket(c.split);
  if (late.row == nullptr || late.row != &c.split.device->buckets.back() || is_of_weights(c, late))
    return more_work(c);
  if (static_cast<double>(late.row->bytes) < kSplittableBytes)
    return "it is too small to be split, its latency remains; " + more_work(c);
  const bool first = c.split.device->buckets.size() == 1;
  return fmt::format("try a smaller --{}-mb", first ? "first-bucket" : "bucket-cap");
}

std::string primary_device(const Case& c) {
  const double exposed_s = c.split.parts.comm_exposed_s, rank_s = c.split.rank.comm_exposed_s;
  const auto words = [&](const auto& transfer) {  // they add up to the part of the step
    const double seconds = rank_s > 0 ? exposed_s / rank_s * transfer.second : 0;
    return fmt::format("{} {}", transfer.first, milliseconds(seconds));
  };
  return fmt::format(
      "{}: {} run one after the other through device 0, with nothing computed meanwhile",
      share_of_step("moving batch, parameters and gradients", exposed_s, c),
      joined(c.split.transfers, ", ", words));
}

std::string servers(const Case& c) {
  return fmt::format("{}: {} workers share {}, which takes {} from each in turn",
                     share_of_step("pushing to and waiting for the server",
                                   c.split.parts.server_wait_s + c.split.parts.comm_exposed_s, c),
                     c.run.world_size, counted(c.run.servers, "server"),
                     rounded_size(gradient_bytes(c.run) / std::max(1, c.run.servers)));
}

std::string more_servers(const Case& c) {
  if (c.run.servers >= c.run.world_size) return "try --strategy=ddp";
  return fmt::format("try --servers={} (each needs a core), or --strategy=ddp", c.run.world_size);
}

std::string slowed_by_overlap(const Case& c) {
  const RankTimes& rank = c.split.rank;
  return fmt::format(
      "{}: backward takes {} times single's, forward only {}, while {} of communication run beside "
      "it",
      share_of_step("compute slowed by overlapped communication", c.split.parts.overlap_slowed_s,
                    c),
      ratio(rank.backward_s, c.split.ideal->backward_s),
      ratio(rank.forward_s, c.split.ideal->forward_s),
      milliseconds(rank.comm_s - rank.comm_exposed_s));
}

std::string slowed_compute(const Case& c) {
  const std::string first =
      fmt::format("{}: forward takes {} times single's, backward {} times",
                  share_of_step("computing slower side by side", c.split.parts.compute_slowed_s, c),
                  ratio(c.split.rank.forward_s, c.split.ideal->forward_s),
                  ratio(c.split.rank.backward_s, c.split.ideal->backward_s));
  return first + (c.run.scaling_mode == "strong"
                      ? " (of its share), as smaller batches compute less efficiently, or the "
                        "devices share something"
                      : " with the same batch, so the devices share something: memory bandwidth, "
                        "caches, clock, or cores with other programs");
}

std::string small_losses(const Case& c) {
  const Loss largest = largest_loss(c.run, c.split);
  const double step_s = c.split.parts.step_s;
  return fmt::format("{:.0f} % is lost in several small parts; the largest: {}, {:.0f} %",
                     100 * ranked_losses(c.split).step_s / step_s, cause_title(largest.cause),
                     100 * largest.seconds / step_s);
}

std::string unknown(const Case& c) {
  if (!c.split.missing.empty()) return "cannot be told: " + c.split.missing;
  return share_of_step("compute", c.split.parts.compute_s, c) +
         "; whether a single device computes faster cannot be told";
}

struct CauseRow {
  std::string_view name, title;
  std::string (*sentence)(const Case& c) = nullptr;  // null: of `what`, `part` and `because`
  const char* advice = "";                           // {} is the option of the batch
  std::string (*advise)(const Case& c) = nullptr;    // in place of `advice`
  const char* what = "";
  double StepParts::*part = nullptr;
  const char* because = "";
};
// In the order of Cause.
constexpr std::array kCauses = {
    CauseRow{"scales", "nothing large to gain", scales},
    CauseRow{"oversubscription", "more threads than cores", oversubscription,
             "use no more devices than there are"},
    CauseRow{"busy_machine", "other programs", busy_machine, "measure on an idle machine"},
    CauseRow{
        "slow_rank", "waiting for a slower device", slow_rank,
        "look at the slower rank's clock, memory, storage, link and what else runs on its cores"},
    CauseRow{"imbalance", "devices wait for each other", nullptr,
             "keep other programs off the machine; a larger {} evens steps out", nullptr,
             "waiting for a slower device", &StepParts::straggler_wait_s,
             "none is always the last one, their times change from step to step"},
    CauseRow{"starved_input", "waiting for input", nullptr, "try more --loader-workers", nullptr,
             "waiting for input", &StepParts::input_wait_s,
             "the loader assembles batches slower than the devices take them"},
    CauseRow{"tiny_network", "too little work in a step", tiny_network,
             "one device is the right choice, or a larger {}"},
    CauseRow{"slow_link", "a slow link", slow_link, "",
             [](const Case& c) {
               return option_of(c.run, "overlap") == "off" ? "try --overlap=on; " + more_work(c)
                                                           : more_work(c) + "; else a faster link";
             }},
    CauseRow{"exposed_communication", "communication not hidden", exposed_communication, "",
             smaller_buckets},
    CauseRow{"primary_device", "all passes through device 0", primary_device, "try --strategy=ddp"},
    CauseRow{"sync_batch_norm", "exchanging batch norm's statistics", nullptr,
             "a larger {}, for which --sync-batch-norm=off often learns as well", nullptr,
             "exchanging statistics of batch norm", &StepParts::sync_batch_norm_s,
             "in each such layer, forward and backward, the devices wait for each other, and "
             "nothing can hide it"},
    CauseRow{"servers", "waiting for servers", servers, "", more_servers},
    CauseRow{"slowed_by_overlap", "computing slows down while data moves", slowed_by_overlap,
             "compare with --overlap=off, or leave a core to communication"},
    CauseRow{"slowed_compute", "slower side by side: shared caches, memory", slowed_compute,
             "a larger {}, or fewer --gpus on an idle machine"},
    CauseRow{"host_overhead", "time between the phases", nullptr, "", more_work,
             "time between phases", &StepParts::host_s,
             "host work, or phases that are long in some steps only"},
    CauseRow{"interpreter_lock", "waiting for the emulated interpreter lock", nullptr,
             "try --strategy=ddp with a device a process", nullptr,
             "waiting for the emulated interpreter lock", &StepParts::interpreter_wait_s,
             "the replicas of a process launch their layers in turn"},
    CauseRow{"small_losses", "several small losses", small_losses},
    CauseRow{"unknown", "not enough was recorded", unknown, "", [](const Case& c) -> std::string {
               if (!stage_idle_words(c.run).empty()) return "try --cut and more --micro-batches";
               return c.split.missing.empty() ? "add single to --strategy" : "try --observe=on";
             }}};

static_assert(kCauses.size() == static_cast<std::size_t>(Cause::unknown) + 1);

const CauseRow& row_of(Cause cause) { return kCauses.at(static_cast<std::size_t>(cause)); }

}  // namespace

std::string shared_words(const Report& report, const Run& run) {
  if (run.device == "cuda") return std::string(crowd_words(run));
  const int devices = run.world_size + run.servers;
  return fmt::format("{} of {} share {}", counted(devices * run.threads_per_device, "thread"),
                     counted(devices, "device"), counted(report.environment.cpu.cores, "core"));
}

std::string_view to_string(Cause cause) { return row_of(cause).name; }
std::string_view cause_title(Cause cause) { return row_of(cause).title; }

std::string cause_advice(Cause cause, const Case& c) {
  const CauseRow& row = row_of(cause);
  return row.advise != nullptr ? row.advise(c)
                               : fmt::format(fmt::runtime(row.advice), batch_option(c));
}

std::string cause_sentence(Cause cause, const Case& c) {
  const CauseRow& row = row_of(cause);
  std::string text =
      row.sentence != nullptr
          ? row.sentence(c)
          : fmt::format("{}: {}", share_of_step(row.what, c.split.parts.*row.part, c), row.because);
  if (!c.split.missing.empty()) return text;
  if (!c.split.no_baseline.empty() && cause != Cause::oversubscription) {
    text += fmt::format(" (no baseline: {})", c.split.no_baseline);
  }
  if (c.split.spread > kMuchScatter) {
    text += fmt::format(" (unsure: step times vary by {:.0f} %)", 100 * c.split.spread);
  }
  return text;
}

}  // namespace ddpbench::report
