// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/math.h"
#include "base/ranges.h"
#include "bench/host/host_limits.h"
#include "bench/run/run_records.h"
#include "parallel/strategies.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

// The results and records of all workers and servers of one run.
struct CollectedRun : RunRecords {
  const TrainingJob& job;
  // Workers that left anything. Some may be missing in a run that failed: figures of the others are
  // better than none.
  std::vector<std::size_t> heard = {};
  std::vector<std::vector<launch::StepRecord>> cycles = {};  // [worker] of its steps

  // Returns how many of so many samples have gradients that are not dropped.
  std::int64_t kept(std::int64_t samples) const {
    return samples * (job.cell.world_size - job.cell.backup_workers) / job.cell.world_size;
  }
  std::vector<std::span<const launch::StepRecord>> heard_cycles() const {
    return mapped(heard,
                  [this](std::size_t r) { return std::span<const launch::StepRecord>(cycles[r]); });
  }
};

CollectedRun read_records(const TrainingJob& job, const launch::RankChannels& channels) {
  CollectedRun all{read_run_records(job, channels), job};
  for (std::size_t r = 0; r < all.steps.size(); ++r) {
    all.cycles.push_back(whole_cycles(all.steps[r], cycle_steps(job)));
    if (!all.steps[r].empty() || !all.results[r].host.empty()) all.heard.push_back(r);
  }
  return all;
}

// All workers took the same number of warm-up steps. Rank 0 judged them.
void fill_warmup(const CollectedRun& all, report::Run& run) {
  const RankResult& first = all.results.at(0);
  run.step.warmup = static_cast<int>(first.warmup_steps.value_or(all.job.options.warmup_steps));
  run.step.warmup_steady = first.warmup_steady;
  if (first.warmup_steady) return;
  run.step.warmup_reason = first.warmup_steps
                               ? fmt::format("fewer than {} warm-up {}", report::kFewestForSteady,
                                             cycle_steps(all.job) > 1 ? "cycles" : "steps")
                               : "the run ended before the warm-up did";
}

void fill_steps(const CollectedRun& all, report::Run& run) {
  const StrategyConfig config = strategy_config(all.job);
  const std::vector<std::vector<double>> ranks = mapped(all.heard_cycles(), step_times);
  fill_warmup(all, run);
  std::vector<double>& steps_s = run.step.samples_s = report::slowest_rank_per_step(ranks);
  if (config.backup_workers > 0) steps_s = update_intervals(all.heard_cycles());
  for (std::size_t i = 0; config.max_staleness > 0 && i < steps_s.size(); ++i) {
    steps_s[i] = 0;
    for (const auto& rank : ranks) steps_s[i] += rank[i] / static_cast<double>(ranks.size());
  }
  run.step.count = static_cast<std::int64_t>(run.step.samples_s.size()) * cycle_steps(all.job);
  if (run.step.count == 0) {
    run.samples_per_s = report::Figure::missing("no timed step was finished");
    run.samples_per_s_per_device = run.samples_per_s;
    return;
  }
  run.step.time_s = report::summarize(run.step.samples_s);
  const auto samples = static_cast<double>(all.kept(run.global_batch_size));
  const double rate = samples / run.step.time_s->median;
  run.samples_per_s = report::Figure::of(rate);
  run.samples_per_s_per_device = report::Figure::of(rate / run.world_size);
}

// ps with updates on the servers has no optimizer phase of its own.
void note_server_update(const TrainingJob& job, std::map<std::string, report::Figure>& phases) {
  if (!strategy_traits(job.cell.strategy).has_servers || job.cell.ps_update != "server") return;
  phases["optimizer_s"] =
      report::Figure::missing("the parameters are updated on the servers, within pull");
}

// Phases, epochs and the course of the loss, over the workers that were heard.
void fill_course(const CollectedRun& all, report::Run& run) {
  const std::vector<const RankResult*> heard =
      mapped(all.heard, [&all](std::size_t r) { return &all.results[r]; });
  const std::vector<RankCourse> ranks = mapped(all.heard, [&all](std::size_t r) {
    return RankCourse{all.results[r].progress, all.steps[r]};
  });
  run.phases = phase_figures(all.heard_cycles(), all.wait_bound_s);
  note_server_update(all.job, run.phases);
  run.epochs = epoch_rows(heard);
  for (report::EpochRow& row : run.epochs) {
    row.samples = all.kept(row.samples);
    row.samples_per_s = static_cast<double>(row.samples) / row.time_s;
  }
  run.evaluation = evaluation_alone(heard);
  run.progress = progress_points(ranks, run, all.kept(run.global_batch_size));
  if (!run.progress.empty()) return;
  run.progress_reason = !all.job.options.observe           ? "observing is off"
                        : run.status == report::Status::ok ? "fewer steps than lie between points"
                                                           : "the run ended before the first point";
}

// The row of one device of rank `r`, `index` among the rank's.
report::DeviceRow device_row(const CollectedRun& all, const launch::RankChannels& channels,
                             std::size_t r, std::size_t index) {
  const int ranks_per_process = plan_strategy(strategy_config(all.job)).ranks_per_process;
  report::DeviceRow row = all.results[r].devices[index];
  row.host = all.results[r].host;
  row.process_rank = static_cast<int>(r) / ranks_per_process;
  const auto& rss = all.results[r].peak_rss_bytes;
  row.process_peak_rss_bytes = rss ? report::Figure::of(static_cast<double>(*rss))
                                   : report::Figure::missing("the system does not tell it");
  const bool timed = r < all.cycles.size() && !all.cycles[r].empty();
  // The replicas of a rank take their steps together.
  row.step_time_median_s =
      timed ? report::Figure::of(report::median(step_times(all.cycles[r])))
            : report::Figure::missing(row.role == "server" ? "servers take no steps"
                                                           : "no timed step was finished");
  if (timed && index > 0)
    row.phases = replica_figures(channels.replicas(static_cast<int>(r)), index);
  if (timed && index == 0) {
    row.phases = phase_figures(std::array{std::span<const launch::StepRecord>(all.cycles[r])},
                               all.wait_bound_s);
    note_server_update(all.job, row.phases);
    row.buckets = bucket_rows(all.buckets[r], all.steps[r], all.wait_bound_s);
  }
  return row;
}

void fill_devices(const CollectedRun& all, const launch::RankChannels& channels, report::Run& run) {
  run.device_model = all.results.at(0).device_model;  // servers may be on another kind of device
  for (std::size_t r = 0; r < all.results.size(); ++r) {
    for (std::size_t i = 0; i < all.results[r].devices.size(); ++i) {
      run.devices.push_back(device_row(all, channels, r, i));
    }
  }
}

report::Figure longest(const CollectedRun& all, std::optional<double> RankResult::*part,
                       const std::string& reason) {
  std::optional<double> most;
  for (const RankResult& rank : all.results) {
    if (rank.*part) most = std::max(most.value_or(0), *(rank.*part));
  }
  return most ? report::Figure::of(*most) : report::Figure::missing(reason);
}

void fill_times(const CollectedRun& all, const launch::SuperviseResult& result, report::Run& run) {
  const auto reached = [&](const char* otherwise) {
    if (run.status != report::Status::ok) return "the run ended before it was done";
    return all.job.options.epochs == 0 ? "no step was taken (--epochs=0)" : otherwise;
  };
  run.time.startup_s = result.startup_s > 0 ? report::Figure::of(result.startup_s)
                                            : report::Figure::missing(reached("not recorded"));
  run.time.verify_s =
      longest(all, &RankResult::verify_s,
              all.job.verify_steps() == 0 ? "nothing was verified" : reached("not recorded"));
  run.time.warmup_s = longest(all, &RankResult::warmup_s, reached("not recorded"));
  run.time.train_s = longest(all, &RankResult::train_s, reached("not recorded"));
  run.time.evaluate_s = longest(all, &RankResult::evaluate_s, reached("not recorded"));
  run.time.load_s = longest(all, &RankResult::load_s, reached("nothing was loaded"));
  run.time.save_s = longest(
      all, &RankResult::save_s,
      all.job.options.save_model.empty() ? "no weights were saved" : reached("training diverged"));
  run.checkpoints = all.results[0].checkpoints;
}

std::optional<report::CallInfo> call_info(const launch::CallMark& call) {
  if (call.number == 0) return std::nullopt;
  const auto known = [](int value) { return value < 0 ? std::nullopt : std::optional(value); };
  return report::CallInfo{std::string(comm::to_string(call.kind)), call.number, known(call.bucket),
                          known(call.peer), call.bytes};
}

// The pending call in which the failure came: the guilty rank's, else the oldest in which another
// waits for it. Null where the calls do not tell, or the rank failed by itself and not in a call.
const report::CallInfo* call_of(const launch::RunFailure& failure,
                                const std::vector<report::RankCalls>& calls) {
  const std::string& operation = failure.error.operation;
  if (operation.empty() && failure.last.error) return nullptr;
  const report::CallInfo* oldest = nullptr;
  for (const report::RankCalls& row : calls) {
    if (!row.pending || (!operation.empty() && row.pending->operation != operation)) continue;
    if (row.rank == failure.rank) return &*row.pending;
    if (row.pending->peer.value_or(failure.rank) != failure.rank) continue;
    if (oldest == nullptr || row.pending->number < oldest->number) oldest = &*row.pending;
  }
  return oldest;
}

// Where the communication of each rank stood. Empty where no rank tells it.
void fill_calls(const launch::RankChannels& channels, const CollectedRun& all,
                const launch::RunFailure& failure, report::Run& run) {
  for (int r = 0; r < channels.layout().ranks; ++r) {
    const launch::RankStatus status = channels.status(r);
    run.calls.push_back({r, all.results[static_cast<std::size_t>(r)].host,
                         call_info(status.completed), call_info(status.pending)});
  }
  const auto tells = [](const report::RankCalls& row) { return row.completed || row.pending; };
  if (std::ranges::none_of(run.calls, tells)) run.calls.clear();
  const report::CallInfo* const call = call_of(failure, run.calls);
  if (call == nullptr) return;
  run.error->operation = call->operation;
  run.error->bucket = call->bucket;
}

}  // namespace

report::ErrorInfo failure_info(const launch::RunFailure& failure) {
  report::ErrorInfo error{.kind = failure.error.kind, .message = failure.error.message};
  error.operation = failure.error.operation;
  if (failure.last.state >= launch::RankState::verifying) error.step = failure.last.step;
  if (failure.last.phase < kPhaseCount) {
    error.phase = std::string(to_string(static_cast<Phase>(failure.last.phase)));
  }
  if (failure.signal != 0) error.signal = failure.signal;
  if (failure.rank < 0) return error;
  error.rank = failure.rank;
  error.host = failure.host.empty() ? host_name() : failure.host;
  return error;
}

static void fill_traffic(const CollectedRun& all, report::Run& run) {
  report::StepTraffic step;
  const auto cycle = static_cast<std::uint64_t>(cycle_steps(all.job));
  std::map<std::pair<int, bool>, comm::Traffic> ends;  // participant, and whether it sends
  for (std::size_t r = 0; r < all.steps.size(); ++r) {
    const auto& told = all.results[r].traffic;
    run.traffic.reason = told.reason;
    if (!told.value) return;
    for (const LinkTraffic& link : *told.value) {
      step.messages += link.messages;
      step.bytes += link.bytes;
      for (comm::Traffic* end : {&ends[{link.from, true}], &ends[{link.to, false}]}) {
        step.busiest_messages = std::max(step.busiest_messages, end->messages += link.messages);
        step.busiest_bytes = std::max(step.busiest_bytes, end->bytes += link.bytes);
      }
    }
  }
  step.messages = ceil_div(step.messages, cycle);
  step.busiest_messages = ceil_div(step.busiest_messages, cycle);
  step.bytes /= cycle;
  step.busiest_bytes /= cycle;
  run.traffic.value = step;
}

// Where servers serve workers one by one, no step of all tells how fast samples are processed: the
// epochs do.
static void fill_pushes(const CollectedRun& all, report::Run& run) {
  const StrategyConfig config = strategy_config(all.job);
  if (!config.serves_one_by_one() || run.epochs.empty()) return;
  double samples = 0, time_s = 0;
  for (const report::EpochRow& epoch : run.epochs) {
    samples += static_cast<double>(epoch.samples);
    time_s += epoch.time_s;
  }
  run.samples_per_s = report::Figure::of(samples / time_s);
  run.samples_per_s_per_device = report::Figure::of(*run.samples_per_s.value / config.replicas);
  const ServedPushes& served = all.results.at(static_cast<std::size_t>(config.replicas)).pushes;
  if (served.updates == 0) return;  // it ended early
  report::PushSection& pushes = run.pushes.emplace();
  pushes.updates = served.updates;
  pushes.updates_per_s = static_cast<double>(served.updates) / time_s;
  pushes.dropped = served.dropped;
  std::vector<double> sorted;
  for (const auto& [staleness, count] : served.staleness) {
    pushes.pushes_by_staleness[std::to_string(staleness)] = static_cast<std::uint64_t>(count);
    sorted.insert(sorted.end(), static_cast<std::size_t>(count), static_cast<double>(staleness));
  }
  if (sorted.empty()) return;
  pushes.staleness_p50 = report::quantile(sorted, 0.5);
  pushes.staleness_p95 = report::quantile(sorted, 0.95);
  pushes.staleness_max = sorted.back();
}

report::Run collect_run(const TrainingJob& job, const launch::RankChannels& channels,
                        const launch::SuperviseResult& result) {
  report::Run run = planned_run(job);
  CollectedRun all = read_records(job, channels);
  if (result.interrupted) {
    run.status = report::Status::interrupted;
    if (result.failure) run.error = failure_info(*result.failure);
  } else if (result.failure) {
    run.status = report::Status::failed;
    run.error = failure_info(*result.failure);
  }
  for (const RankResult& rank : all.results) {
    run.parameters = std::max(run.parameters, rank.parameters);
    // What ran may differ from the plan.
    if (!job.all_reduce.empty() && !rank.all_reduce.empty()) {
      run.strategy_options["all_reduce"] = rank.all_reduce;
    }
  }
  fill_traffic(all, run);
  fill_times(all, result, run);
  fill_steps(all, run);
  fill_course(all, run);
  fill_pushes(all, run);
  run.loss_scaling = all.results.at(0).loss_scaling;
  if (run.until_accuracy) report::fill_time_to_accuracy(run);
  fill_devices(all, channels, run);
  run.clocks = all.clocks.rows();
  if (result.failure && run.status == report::Status::failed) {
    fill_calls(channels, all, *result.failure, run);
  }
  run.verification = summarize_verification(all.job, all.results);
  note_divergence(job, all.results, run);
  return run;
}

}  // namespace ddpbench::bench
