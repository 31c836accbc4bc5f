// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/why/why_cause.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"

namespace ddpbench::report {
namespace {

// A straggler itself waits at most this share of the longest wait.
constexpr double kStragglerShare = 0.35;
// Of two ranks that wait in turn, one always waits less. It is a straggler only if the difference
// is more than this many IQR / sqrt(n) of the step times. IQR / sqrt(n) is about the standard error
// of a median (1.25 sigma / sqrt(n), with IQR = 1.35 sigma). That of a difference of two is 1.3 of
// these units, so 2 units are one and a half standard errors. This is cautious: steps of the whole
// run scatter more than the waiting of two ranks in the same step.
constexpr double kScatterUnits = 2;
// A phase explains the waiting if it is longer on the straggler by this share of the waiting.
constexpr double kExplainingShare = 0.3;

// Why `phases` cannot be split; empty when they can.
std::string unobserved(const Phases& phases) {
  for (const char* name : {"forward_s", "backward_s"}) {
    const Figure phase = phase_of(phases, name);
    if (phase.value) continue;
    return phase.reason.empty() ? std::string(name) + " was not recorded" : phase.reason;
  }
  return {};
}

struct PhaseName {
  double RankTimes::*time;
  const char* key;
  const char* title;
};
constexpr std::array kWorkPhases = {PhaseName{&RankTimes::input_s, "data_wait_s", "input wait"},
                                    PhaseName{&RankTimes::forward_s, "forward_s", "forward"},
                                    PhaseName{&RankTimes::loss_s, "loss_s", "loss"},
                                    PhaseName{&RankTimes::backward_s, "backward_s", "backward"},
                                    PhaseName{&RankTimes::optimizer_s, "optimizer_s", "update"}};

RankTimes rank_times(const Phases& phases, double step_s) {
  RankTimes times;
  times.step_s = step_s;
  for (const auto& [time, key, title] : kWorkPhases) times.*time = seconds_of(phases, key);
  times.comm_s = seconds_of(phases, "comm_s");
  times.comm_exposed_s = seconds_of(phases, "comm_exposed_s");
  times.wait_exposed_s = seconds_of(phases, "comm_wait_exposed_s");
  times.sync_s = seconds_of(phases, "sync_batch_norm_s");
  times.interpreter_s = seconds_of(phases, "interpreter_wait_s");
  return times;
}

// What the exchanges take of the device that waits least in them. Beyond that it is waiting.
double least_sync(const Run& run, const RankTimes& rank) {
  double least = rank.sync_s;
  for (const DeviceRow& device : run.devices) {
    const double own = seconds_of(device.phases, "sync_batch_norm_s");
    if (own > 0) least = std::min(least, own);
  }
  return least;
}

struct Rank {
  const DeviceRow* device = nullptr;
  RankTimes times;
};

// The ranks that take steps: of the threads of dp the primary, which does what the others wait for.
std::vector<Rank> observed_ranks(const Run& run) {
  const bool primary_alone = strategy_row(run.strategy).through_primary;
  std::vector<Rank> ranks;
  for (const DeviceRow& device : run.devices) {
    if (primary_alone && device.rank > 0) continue;
    if (device.role == "server" || !unobserved(device.phases).empty()) continue;
    const double step_s = device.step_time_median_s.value.value_or(run.step.time_s->median);
    ranks.push_back({&device, rank_times(device.phases, step_s)});
  }
  return ranks;
}

double spread_of(const Run& run) {
  const StepStatistics& step = *run.step.time_s;
  return step.median > 0 ? step.iqr.value.value_or(0) / step.median : 0;
}

void explain_stragglers(const std::vector<Rank>& ranks, double waited_s, Stragglers& found) {
  const auto is_straggler = [&](const Rank& rank) {
    return std::ranges::find(found.ranks, rank.device) != found.ranks.end();
  };
  for (const PhaseName& phase : kWorkPhases) {
    std::vector<double> theirs, others;
    for (const Rank& rank : ranks) {
      (is_straggler(rank) ? theirs : others).push_back(rank.times.*phase.time);
    }
    const double longer = median(std::move(theirs)) - median(std::move(others));
    if (longer > kExplainingShare * waited_s && longer > found.longer_s) {
      found.phase = phase.title;
      found.longer_s = longer;
    }
  }
}

// The seconds by which the waits of ranks may differ although no rank is slow.
double by_chance_s(const Run& run) {
  const StepStatistics& step = *run.step.time_s;
  const double steps = std::max<double>(1, static_cast<double>(run.step.samples_s.size()));
  return std::max(kNegligibleShare * step.median,
                  kScatterUnits * step.iqr.value.value_or(0) / std::sqrt(steps));
}

// A straggler arrives last, so it hardly waits while the others do. The wait for servers and the
// exchange of statistics, which all ranks share, are subtracted first. Waiting that compute hides
// costs nothing.
Stragglers find_stragglers(const Run& run, const std::vector<Rank>& ranks) {
  const auto blocked = [](const Rank& rank) { return rank.times.blocked_s(); };
  const double least = blocked(std::ranges::min(ranks, {}, blocked));
  const double most = blocked(std::ranges::max(ranks, {}, blocked));
  const bool shares = run.servers > 0 || ranks.front().times.sync_s > 0;
  const double floor = shares ? least : 0;
  Stragglers found;
  if (most - floor <= by_chance_s(run)) return found;
  for (const Rank& rank : ranks) {
    if (rank.times.blocked_s() - floor <= kStragglerShare * (most - floor)) {
      found.ranks.push_back(rank.device);
    }
  }
  // If as many ranks are waited for as wait, they are no exception.
  if (2 * found.ranks.size() > ranks.size()) found.ranks.clear();
  if (!found.ranks.empty()) explain_stragglers(ranks, most - floor, found);
  return found;
}

// The replicas that the primary of dp waits for when it gathers outputs and gradients: those that
// compute longer by a good part of that waiting.
Stragglers find_slow_replicas(const Run& run, const RankTimes& primary, double least_sync_s) {
  Stragglers found;
  const double waited_s = primary.blocked_s() - least_sync_s;
  if (waited_s <= by_chance_s(run)) return found;
  for (const DeviceRow& device : run.devices) {
    if (device.rank == 0 || !unobserved(device.phases).empty()) continue;
    const double forward_s = seconds_of(device.phases, "forward_s") - primary.forward_s;
    const double backward_s = seconds_of(device.phases, "backward_s") - primary.backward_s;
    if (std::max(forward_s, 0.0) + std::max(backward_s, 0.0) < kExplainingShare * waited_s)
      continue;
    found.ranks.push_back(&device);
    const double longer_s = std::max(forward_s, backward_s);
    if (longer_s <= found.longer_s) continue;
    found.longer_s = longer_s;
    found.phase = forward_s > backward_s ? "forward" : "backward";
  }
  // If as many replicas are slow as not, they are no exception.
  if (2 * found.ranks.size() > run.devices.size()) found = {};
  return found;
}

// dp: the transfers through the primary.
void split_primary(const Run& run, Decomposition& result) {
  double sum = 0;
  for (const char* name : {"scatter", "replicate", "gather", "reduce"}) {
    const double seconds = seconds_of(run.phases, std::string(name) + "_s");
    if (seconds > 0) result.transfers.emplace_back(name, seconds);
    sum += seconds;
  }
  const double rest_s = result.rank.comm_exposed_s - sum;
  if (sum > 0 && rest_s > 0) {
    result.transfers.emplace_back("longer ones in some steps", rest_s);
    sum = result.rank.comm_exposed_s;
  }
  // Medians need not add up.
  for (auto& [name, seconds] : result.transfers) seconds *= result.rank.comm_exposed_s / sum;
  result.stragglers = find_slow_replicas(run, result.rank, result.least_sync_s);
}

void split_compute(const Decomposition& result, StepParts& parts) {
  const RankTimes& rank = result.rank;
  const double compute = rank.compute_s();
  if (!result.ideal) {
    parts.compute_s = compute;
    return;
  }
  parts.compute_s = std::min(compute, result.ideal->compute_s());
  const double excess = compute - parts.compute_s;
  // Nothing runs beside forward. So backward without communication would be slower by the same
  // factor.
  const double slower =
      result.ideal->forward_s > 0 ? std::max(1.0, rank.forward_s / result.ideal->forward_s) : 1.0;
  const double beyond = std::max(0.0, rank.backward_s - slower * result.ideal->backward_s);
  const double overlapped = std::max(0.0, rank.comm_s - rank.comm_exposed_s);
  parts.overlap_slowed_s = std::min({beyond, overlapped, excess});
  parts.compute_slowed_s = excess - parts.overlap_slowed_s;
}

// The remaining time is the host's. Medians need not add up: parts that exceed the step are scaled
// down alike.
void close_sum(StepParts& parts) {
  double sum = 0;
  for (const PartName& name : kPartNames) sum += parts.*name.part;
  if (sum <= parts.step_s) {
    parts.host_s += parts.step_s - sum;
    return;
  }
  for (const PartName& name : kPartNames) parts.*name.part *= parts.step_s / sum;
}

StepParts split_step(const Run& run, const Decomposition& result, double least_wait_s) {
  const RankTimes& rank = result.rank;
  StepParts parts;
  // Workers that are served one by one do not wait for the slowest: these are a worker's own.
  parts.step_s = run.pushes ? rank.step_s : run.step.time_s->median;
  split_compute(result, parts);
  parts.comm_exposed_s = rank.comm_exposed_s;
  parts.sync_batch_norm_s = std::min(rank.sync_s, result.least_sync_s);
  parts.input_wait_s = rank.input_s;
  if (run.servers > 0) parts.server_wait_s = std::min(rank.wait_exposed_s, least_wait_s);
  // The step ends with the slowest rank: its time beyond this rank's is also waiting.
  parts.straggler_wait_s = rank.blocked_s() - parts.sync_batch_norm_s - parts.server_wait_s;
  if (run.world_size > 1) parts.straggler_wait_s += std::max(0.0, parts.step_s - rank.step_s);
  // Who waits for a device that waited for the lock waits for the lock.
  const double longest_s = largest(run.devices, rank.interpreter_s, [](const DeviceRow& device) {
    return seconds_of(device.phases, "interpreter_wait_s");
  });
  const double for_others_s = std::min(parts.straggler_wait_s, longest_s - rank.interpreter_s);
  parts.straggler_wait_s -= for_others_s;
  parts.interpreter_wait_s = rank.interpreter_s + for_others_s;
  close_sum(parts);
  return parts;
}

StepParts losses(const StepParts& parts, const RankTimes& ideal) {
  StepParts lost = parts;
  lost.step_s -= ideal.step_s;
  lost.compute_s -= ideal.compute_s();
  lost.input_wait_s -= ideal.input_s;
  lost.host_s -= std::max(0.0, ideal.step_s - ideal.compute_s() - ideal.input_s);
  return lost;
}

}  // namespace

// The median of each member over the repetitions.
Lender::Times Lender::times_of(std::vector<const Run*> singles) {
  std::erase_if(singles, [](const Run* single) {
    return !single->step.time_s || !unobserved(single->phases).empty();
  });
  if (singles.empty()) return {};
  Times times{.observed = true};
  std::vector<RankTimes> all;
  for (const Run* single : singles) {
    times.spread = std::max(times.spread, spread_of(*single));
    all.push_back(rank_times(single->phases, single->step.time_s->median));
  }
  const auto set_median = [&](double RankTimes::*member) {
    times.median.*member = median(mapped(all, member));
  };
  set_median(&RankTimes::step_s);
  for (const PhaseName& phase : kWorkPhases) set_median(phase.time);
  return times;
}

void Lender::lend(const Run& run, Decomposition& result) const {
  const std::vector<const Run*>& singles = baselines_.of(run);
  if (singles.empty()) {
    result.no_baseline = baselines_.why_none(run);
    return;
  }
  const auto [place, is_new] = times_.try_emplace(&singles);
  if (is_new) place->second = times_of(singles);
  const Times& times = place->second;
  if (!times.observed) {
    result.no_baseline = "the phases of the single run were not observed";
    return;
  }
  result.spread = std::max(result.spread, times.spread);
  result.ideal = times.median;
  const double divisor = run.scaling_mode == "strong" ? run.world_size : 1;
  result.ideal->step_s /= divisor;
  for (const PhaseName& phase : kWorkPhases) *result.ideal.*phase.time /= divisor;
}

Decomposition decompose(const Lender& lender, const Run& run) {
  Decomposition result;
  if (!run.step.time_s) {
    result.missing = "no step was timed";
    return result;
  }
  result.spread = spread_of(run);
  if (const std::string idle = stage_idle_words(run); !idle.empty()) {
    // What a device computes of a network is compared with no device that computes all of it.
    result.missing = "the devices compute different layers; " + idle;
    return result;
  }
  lender.lend(run, result);
  const std::vector<Rank> ranks = observed_ranks(run);
  double least_wait_s = 0;
  if (!ranks.empty()) {
    const auto waiting = [](const Rank& rank) { return rank.times.wait_exposed_s; };
    const auto blocked = [](const Rank& rank) { return rank.times.blocked_s(); };
    const Rank longest = std::ranges::max(ranks, {}, blocked);
    least_wait_s = std::ranges::min(ranks, {}, waiting).times.wait_exposed_s;
    result.rank = longest.times;
    result.device = longest.device;
    if (ranks.size() > 1) result.stragglers = find_stragglers(run, ranks);
  } else {
    result.missing = unobserved(run.phases);
    if (!result.missing.empty()) return result;
    result.rank = rank_times(run.phases, run.step.time_s->median);
    least_wait_s = result.rank.wait_exposed_s;
  }
  result.least_sync_s = least_sync(run, result.rank);
  if (strategy_row(run.strategy).through_primary) split_primary(run, result);
  result.parts = split_step(run, result, least_wait_s);
  if (result.ideal) result.lost = losses(result.parts, *result.ideal);
  return result;
}

}  // namespace ddpbench::report
