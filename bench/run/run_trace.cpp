// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/ranges.h"
#include "bench/host/host_limits.h"
#include "bench/run/run_records.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// Threads of a traced process. Collectives that run at the same time get further threads.
constexpr int kSteps = 1, kInput = 2, kCompute = 3, kStatistics = 4, kCommunication = 5;

// What a rank that went astray writes is bounded.
constexpr std::uint32_t kMostReplicas = 1024;

int thread_of(Phase phase) {
  if (phase == Phase::data_wait) return kInput;
  if (phase == Phase::sync_batch_norm) return kStatistics;
  return is_transfer(phase) ? kCommunication : kCompute;
}

// The records of one replica, and what the trace needs to place them. Steps are those of its
// process; its buckets and its input are shown with its first replica.
class RankTrace {
 public:
  // `replica`: its index in process `rank`. The references outlive this.
  RankTrace(report::Trace& trace, const TrainingJob& job, const RankRecords& records, int rank,
            std::uint32_t replica)
      : trace_(trace), job_(job), all_(records), rank_(rank), replica_(replica) {}

  std::size_t traced() const {
    return std::min(steps().size(), static_cast<std::size_t>(job_.options.trace_steps));
  }
  // The earliest time of the trace: an epoch begins before its first step. REQUIRES: a step.
  double begin_s() const {
    const auto& epochs = result().epochs;
    const double first_s = steps()[0].begin_s;
    return epochs.empty() ? first_s : std::min(first_s, epochs[0].begin_s);
  }

  void append(double origin_s, const std::string& label) {
    origin_s_ = origin_s;
    process_.label = label;
    process_.id = static_cast<int>(trace_.processes.size());
    process_.name = fmt::format("{}, rank {}", job_.title, rank_ + static_cast<int>(replica_));
    process_.threads = {{kSteps, "steps"}, {kCompute, "compute"}};
    if (replica_ == 0) process_.threads[kInput] = "input";
    append_steps();
    append_phases_and_layers();
    if (replica_ == 0) append_buckets();
    trace_.processes.push_back(std::move(process_));
  }

 private:
  std::size_t at() const { return static_cast<std::size_t>(rank_); }
  const RankResult& result() const { return all_.results[at()]; }
  const std::vector<launch::StepRecord>& steps() const { return all_.steps[at()]; }

  void event(std::string name, const char* category, int thread, double begin_s, double end_s,
             std::map<std::string, std::int64_t> arguments) {
    trace_.events.push_back({std::move(name), category, process_.id, thread, begin_s - origin_s_,
                             end_s - origin_s_, std::move(arguments)});
  }

  void append_steps() {
    const std::span traced_steps(steps().data(), traced());
    for (const launch::StepRecord& step : traced_steps) {
      event(fmt::format("step {}", step.step), "step", kSteps, step.begin_s, step.end_s,
            {{"epoch", step.epoch}});
    }
    const std::uint32_t first = traced_steps.front().epoch;  // of training that was resumed: not 0
    for (std::uint32_t epoch = first; epoch <= traced_steps.back().epoch; ++epoch) {
      append_epoch(epoch, epoch - first);
    }
  }

  // An epoch that did not end is drawn to the end of its last step.
  void append_epoch(std::uint32_t epoch, std::size_t row) {
    double begin_s = 0, end_s = 0;
    for (const launch::StepRecord& step : steps()) {
      if (step.epoch != epoch) continue;
      if (end_s == 0) begin_s = step.begin_s;
      end_s = step.end_s;
    }
    if (row < result().epochs.size()) {
      begin_s = std::min(begin_s, result().epochs[row].begin_s);
      end_s = std::max(end_s, result().epochs[row].end_s);
    }
    event(fmt::format("epoch {}", epoch), "epoch", kSteps, begin_s, end_s, {});
  }

  void append_phases_and_layers() {
    const std::vector<std::string>& calls = result().calls;
    for (const launch::TraceRecord& record : all_.trace[at()]) {
      if (record.step >= traced() || record.replica != replica_) continue;
      if (record.kind != launch::TraceRecord::Kind::phase) {
        event(record.which < calls.size() ? calls[record.which]
                                          : fmt::format("call {}", record.which),
              "layer", kCompute, record.begin_s, record.end_s, {{"step", record.step}});
        continue;
      }
      const auto phase = static_cast<Phase>(record.which);
      const int thread = thread_of(phase);
      if (thread == kCommunication) process_.threads[thread] = "communication";
      if (thread == kStatistics) process_.threads[thread] = "statistics of batch norm";
      event(std::string(to_string(phase)), "phase", thread, record.begin_s, record.end_s,
            {{"step", record.step}});
    }
  }

  std::string bucket_name(std::uint32_t bucket) const {
    if (!strategy_traits(job_.cell.strategy).has_servers) return fmt::format("bucket {}", bucket);
    const auto servers = static_cast<std::uint32_t>(job_.cell.servers);
    return bucket < servers ? fmt::format("push shard {}", bucket)
                            : fmt::format("pull shard {}", bucket - servers);
  }

  // The first thread that is free at `begin_s`.
  int communication_thread(double begin_s, double end_s) {
    std::size_t lane = 0;
    while (lane < busy_until_s_.size() && busy_until_s_[lane] > begin_s) ++lane;
    if (lane == busy_until_s_.size()) busy_until_s_.push_back(0);
    busy_until_s_[lane] = end_s;
    const int thread = kCommunication + static_cast<int>(lane);
    process_.threads[thread] =
        lane == 0 ? "communication" : fmt::format("communication {}", lane + 1);
    return thread;
  }

  // The buckets, and how many of their bytes wait for peers and are transferred, from each moment
  // on at which that changes.
  void append_buckets() {
    std::vector<launch::BucketRecord> buckets;
    std::ranges::copy_if(
        all_.buckets[at()], std::back_inserter(buckets), [&](const launch::BucketRecord& record) {
          return record.step < traced() && record.times.end_s > record.times.ready_s;
        });
    std::ranges::stable_sort(buckets, {}, [](const auto& record) { return record.times.start_s; });
    std::map<double, std::pair<std::int64_t, std::int64_t>> changes;  // waiting, transferring
    for (const launch::BucketRecord& record : buckets) {
      append_bucket(record);
      const BucketTimes& times = record.times;
      const auto bytes = static_cast<std::int64_t>(times.bytes);
      changes[times.start_s].first += bytes;
      changes[times.arrived_s].first -= bytes;
      changes[times.arrived_s].second += bytes;
      changes[times.end_s].second -= bytes;
    }
    std::int64_t waiting = 0, transferring = 0;
    for (const auto& [time_s, change] : changes) {
      waiting += change.first;
      transferring += change.second;
      trace_.counters.push_back({"bytes under way",
                                 process_.id,
                                 time_s - origin_s_,
                                 {{"waiting for peers", waiting}, {"transferring", transferring}}});
    }
  }

  void append_bucket(const launch::BucketRecord& record) {
    const BucketTimes& times = record.times;
    const int thread = communication_thread(times.start_s, times.end_s);
    const std::string name = bucket_name(times.bucket);
    event(name, "bucket", thread, times.start_s, times.end_s,
          {{"step", record.step},
           {"bucket", times.bucket},
           {"bytes", static_cast<std::int64_t>(times.bytes)}});
    if (times.arrived_told) {
      event("waiting for peers", "waiting", thread, times.start_s, times.arrived_s,
            {{"step", record.step}});
      event("transfer", "transfer", thread, times.arrived_s, times.end_s, {{"step", record.step}});
    }
    trace_.flows.push_back({name + " ready", process_.id, kCompute, thread,
                            times.ready_s - origin_s_, times.start_s - origin_s_});
  }

  report::Trace& trace_;
  const TrainingJob& job_;
  const RankRecords& all_;
  int rank_;
  std::uint32_t replica_;
  double origin_s_ = 0;
  report::TraceProcess process_;
  std::vector<double> busy_until_s_;
};

std::string server_words(Phase phase) {
  if (phase == Phase::push) return "receive gradients";
  if (phase == Phase::reduce) return "average";
  if (phase == Phase::optimizer) return "update";
  if (phase == Phase::pull) return "send the result";
  return std::string(to_string(phase));
}

// Shows what a server did in the first `traced` steps of its workers; nothing, where that is
// nothing. What it began in the last one may end after it.
void append_server(const std::vector<launch::TraceRecord>& records, const std::string& name,
                   std::size_t traced, double origin_s, const std::string& label,
                   report::Trace& trace) {
  const int process = static_cast<int>(trace.processes.size());
  // The last start is that of the timed steps.
  const std::uint32_t last = largest(records, 0U, &launch::TraceRecord::replica);
  std::map<std::uint32_t, std::pair<double, double>> rounds;  // of each step
  for (const launch::TraceRecord& record : records) {
    if (record.replica != last || record.step >= traced) continue;
    const double begin_s = record.begin_s - origin_s, end_s = record.end_s - origin_s;
    const auto phase = static_cast<Phase>(record.which);
    const bool computes = phase == Phase::reduce || phase == Phase::optimizer;
    const int thread = computes ? kCompute : kCommunication;
    trace.events.push_back(
        {server_words(phase), "phase", process, thread, begin_s, end_s, {{"step", record.step}}});
    auto& [first_s, last_s] = rounds.try_emplace(record.step, begin_s, end_s).first->second;
    first_s = std::min(first_s, begin_s);
    last_s = std::max(last_s, end_s);
  }
  if (rounds.empty()) return;
  trace.processes.push_back(
      {process,
       name,
       {{kSteps, "steps"}, {kCompute, "compute"}, {kCommunication, "communication"}},
       label});
  for (const auto& [step, round] : rounds) {
    trace.events.push_back(
        {fmt::format("step {}", step), "step", process, kSteps, round.first, round.second, {}});
  }
}

// The wall clock's time, in UTC, at which the monotonic clock of this host shows `at_s`.
std::string wall_time(double at_s) {
  using std::chrono::milliseconds;
  const auto ago =
      std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(steady_s() - at_s));
  const auto then = std::chrono::floor<milliseconds>(std::chrono::system_clock::now() - ago);
  const auto second = std::chrono::floor<std::chrono::seconds>(then);
  return fmt::format("{}.{:03}Z",
                     utc_time("%Y-%m-%dT%H:%M:%S", std::chrono::system_clock::to_time_t(second)),
                     (then - second).count());
}

}  // namespace

void add_run(report::Trace& trace, const TrainingJob& job, const launch::RankChannels& channels) {
  const RunRecords all = read_run_records(job, channels);
  const std::size_t workers = all.steps.size();
  std::vector<RankTrace> ranks;
  std::uint64_t dropped = 0;
  std::size_t traced = 0;
  std::optional<double> origin;  // when the first of them begins
  for (int r = 0; r < channels.layout().ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    dropped += channels.dropped_trace(r);
    if (rank >= workers || all.steps[rank].empty()) continue;
    const std::uint32_t last = largest(all.trace[rank], 0U, &launch::TraceRecord::replica);
    for (std::uint32_t i = 0; i <= std::min(last, kMostReplicas); ++i) {
      const RankTrace& added = ranks.emplace_back(trace, job, all, r, i);
      traced = std::max(traced, added.traced());
      origin = std::min(origin.value_or(added.begin_s()), added.begin_s());
    }
  }
  // Times are those of the first host's clock.
  const std::string begin =
      origin && all.clocks.first_host() == host_name() ? wall_time(*origin) : "";
  const std::string label = begin.empty() ? "" : "time 0: " + begin;
  for (RankTrace& rank : ranks) rank.append(*origin, label);
  for (std::size_t r = workers; origin && r < all.trace.size(); ++r) {
    const std::string name = fmt::format("{}, rank {} (server)", job.title, r);
    append_server(all.trace[r], name, traced, *origin, label, trace);
  }
  trace.metadata["traced_steps"] =
      fmt::format("the first {} timed ones of every run", job.options.trace_steps);
  trace.metadata["time_0"] =
      "of every run: the begin of its first epoch, or of its first timed step";
  const auto note = [&](const char* what, std::string text) {
    trace.metadata[fmt::format("{} of {}", what, job.title)] = std::move(text);
  };
  const double bound_s = all.clocks.bound_s();
  if (!begin.empty()) note("time_0", begin);
  if (bound_s > 0) {
    note("clocks",
         std::isfinite(bound_s)
             ? fmt::format("times of different hosts compare within {:.3g} us", bound_s * 1e6)
             : "not measured on all hosts: each begins at 0");
  }
  if (dropped > 0) note("dropped", fmt::format("{} phases and layers", dropped));
}

}  // namespace ddpbench::bench
