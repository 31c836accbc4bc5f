// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/why/why_cause.h"

#include <algorithm>

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
  if (cycle_of(run) > 0) return Cause::exposed_communication;  // no backward could hide it
  // If it takes longer than the passes beside it, even perfect overlap leaves some exposed.
  const double forward_s = strategy_row(run.strategy).gathers_units ? split.rank.forward_s : 0;
  return split.rank.comm_s > forward_s + split.rank.backward_s ? Cause::slow_link
                                                               : Cause::exposed_communication;
}

Cause waiting_cause(const Decomposition& split) {
  return split.stragglers.ranks.empty() ? Cause::imbalance : Cause::slow_rank;
}

}  // namespace

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
  const std::array<Loss, 8> losses = {
      Loss{lost.input_wait_s, Cause::starved_input},
      {lost.straggler_wait_s, waiting_cause(split)},
      {lost.comm_exposed_s + through_servers, communication_cause(run, split)},
      {lost.sync_batch_norm_s, Cause::sync_batch_norm},
      {lost.overlap_slowed_s, Cause::slowed_by_overlap},
      {lost.compute_slowed_s, Cause::slowed_compute},
      {lost.interpreter_wait_s, Cause::interpreter_lock},
      {lost.host_s, Cause::host_overhead}};
  return *std::ranges::max_element(losses, {}, &Loss::seconds);
}

double gradient_bytes(const Run& run) {
  if (has_hook(run) && !run.devices.empty()) {
    double sent = 0;
    for (const BucketRow& bucket : run.devices[0].buckets)
      sent += static_cast<double>(bucket.bytes);
    if (sent > 0) return sent;
  }
  constexpr double kFloatBytes = 4;  // gradients are fp32 in every precision
  return static_cast<double>(run.parameters) * kFloatBytes;
}

bool has_hook(const Run& run) { return run.strategy_options.contains("comm_hook"); }

int cycle_of(const Run& run) { return number_in<int>(option_of(run, "sync_every")).value_or(0); }

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
  const bool small = lost.step_s <= negligible_s;
  if (small && !split.ideal) return Cause::unknown;
  // What other work took shows as waiting, slow compute or host time, and as any of these by
  // chance. Of a run with a planted fault the cause is known.
  if (run.injected.empty() && !other_work(run).empty()) return Cause::busy_machine;
  if (small) return Cause::scales;
  if (is_tiny(run, lost, split)) return Cause::tiny_network;
  const Loss largest = largest_loss(run, split);
  return largest.seconds < negligible_s ? Cause::small_losses : largest.cause;
}

}  // namespace ddpbench::report
