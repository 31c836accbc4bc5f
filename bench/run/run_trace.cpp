// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "bench/host/environment_capture.h"
#include "bench/rank/rank_result.h"
#include "bench/run/run_records.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// Threads of a traced process. Collectives that run at the same time get further threads.
constexpr int kSteps = 1, kInput = 2, kCompute = 3, kStatistics = 4, kCommunication = 5;

// What a rank that went astray writes is bounded.
constexpr std::uint32_t kMostReplicas = 1024;

int thread_of(Phase phase) {
  switch (phase) {
    case Phase::data_wait:
      return kInput;
    case Phase::scatter:
    case Phase::replicate:
    case Phase::gather:
    case Phase::reduce:
      return kCommunication;
    case Phase::sync_batch_norm:
      return kStatistics;
    default:
      return kCompute;
  }
}

// The records of one replica, and what the trace needs to place them. Steps are those of its
// process; its buckets and its input are shown with its first replica.
class RankTrace {
 public:
  // `replica`: its index in process `rank`. `records` outlive this.
  RankTrace(report::Trace& trace, const TrainingJob& job, const RankRecords& records, int rank,
            std::uint32_t replica)
      : trace_(trace),
        job_(job),
        result_(records.results[static_cast<std::size_t>(rank)]),
        steps_(records.steps[static_cast<std::size_t>(rank)]),
        buckets_(records.buckets[static_cast<std::size_t>(rank)]),
        records_(records.trace[static_cast<std::size_t>(rank)]),
        rank_(rank),
        replica_(replica) {
    traced_ = std::min(steps_.size(), static_cast<std::size_t>(job.options.trace_steps));
  }

  bool empty() const { return traced_ == 0; }
  std::size_t traced() const { return traced_; }
  // When the first traced step begins, and when the last one ends.
  double first_s() const { return steps_[0].begin_s; }
  double last_s() const { return steps_[traced_ - 1].end_s; }
  const std::string& host() const { return result_.host; }
  // The earliest time of the trace: an epoch begins before its first step.
  double begin_s() const {
    const auto& epochs = result_.epochs;
    return epochs.empty() ? steps_[0].begin_s : std::min(steps_[0].begin_s, epochs[0].begin_s);
  }

  void append(double origin_s, const std::string& label) {
    origin_s_ = origin_s;
    process_.label = label;
    process_.id = static_cast<int>(trace_.processes.size());
    process_.name = fmt::format("rank {}", rank_ + static_cast<int>(replica_));
    process_.threads = {{kSteps, "steps"}, {kCompute, "compute"}};
    if (replica_ == 0) process_.threads[kInput] = "input";
    append_steps();
    append_phases_and_layers();
    if (replica_ == 0) append_buckets();
    trace_.processes.push_back(std::move(process_));
  }

 private:
  void event(std::string name, const char* category, int thread, double begin_s, double end_s,
             std::map<std::string, std::int64_t> arguments) {
    trace_.events.push_back({std::move(name), category, process_.id, thread, begin_s - origin_s_,
                             end_s - origin_s_, std::move(arguments)});
  }

  void append_steps() {
    for (std::size_t i = 0; i < traced_; ++i) {
      const launch::StepRecord& step = steps_[i];
      event(fmt::format("step {}", step.step), "step", kSteps, step.begin_s, step.end_s,
            {{"epoch", step.epoch}});
    }
    for (std::uint32_t epoch = 0; epoch <= steps_[traced_ - 1].epoch; ++epoch) append_epoch(epoch);
  }

  // An epoch that did not end is drawn to the end of its last step.
  void append_epoch(std::uint32_t epoch) {
    double begin_s = 0, end_s = 0;
    for (const launch::StepRecord& step : steps_) {
      if (step.epoch != epoch) continue;
      if (end_s == 0) begin_s = step.begin_s;
      end_s = step.end_s;
    }
    if (epoch < result_.epochs.size()) {
      begin_s = std::min(begin_s, result_.epochs[epoch].begin_s);
      end_s = std::max(end_s, result_.epochs[epoch].end_s);
    }
    event(fmt::format("epoch {}", epoch), "epoch", kSteps, begin_s, end_s, {});
  }

  void append_phases_and_layers() {
    for (const launch::TraceRecord& record : records_) {
      if (record.step >= traced_ || record.replica != replica_) continue;
      if (record.kind == launch::TraceRecord::Kind::phase) {
        const auto phase = static_cast<Phase>(record.which);
        const int thread = thread_of(phase);
        if (thread == kCommunication) process_.threads[thread] = "communication";
        if (thread == kStatistics) process_.threads[thread] = "statistics of batch norm";
        event(std::string(to_string(phase)), "phase", thread, record.begin_s, record.end_s,
              {{"step", record.step}});
      } else {
        const std::string name = record.which < result_.calls.size()
                                     ? result_.calls[record.which]
                                     : fmt::format("call {}", record.which);
        event(name, "layer", kCompute, record.begin_s, record.end_s, {{"step", record.step}});
      }
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

  void append_buckets() {
    std::vector<launch::BucketRecord> traced;
    for (const launch::BucketRecord& record : buckets_) {
      if (record.step < traced_) traced.push_back(record);
    }
    std::ranges::stable_sort(traced, {}, [](const auto& record) { return record.times.start_s; });
    for (const launch::BucketRecord& record : traced) append_bucket(record);
    append_bytes_under_way(traced);
  }

  // How many bytes of buckets wait for peers and are transferred, from each moment on at which that
  // changes.
  void append_bytes_under_way(const std::vector<launch::BucketRecord>& traced) {
    struct Change {
      std::int64_t waiting = 0, transferring = 0;
    };
    std::map<double, Change> changes;
    for (const launch::BucketRecord& record : traced) {
      const BucketTimes& times = record.times;
      const auto bytes = static_cast<std::int64_t>(times.bytes);
      changes[times.start_s].waiting += bytes;
      changes[times.arrived_s].waiting -= bytes;
      changes[times.arrived_s].transferring += bytes;
      changes[times.end_s].transferring -= bytes;
    }
    Change now;
    for (const auto& [time_s, change] : changes) {
      now.waiting += change.waiting;
      now.transferring += change.transferring;
      trace_.counters.push_back(
          {"bytes under way",
           process_.id,
           time_s - origin_s_,
           {{"waiting for peers", now.waiting}, {"transferring", now.transferring}}});
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
  const RankResult& result_;
  std::span<const launch::StepRecord> steps_;
  std::span<const launch::BucketRecord> buckets_;
  std::span<const launch::TraceRecord> records_;
  int rank_;
  std::uint32_t replica_;
  std::size_t traced_ = 0;
  double origin_s_ = 0;
  report::TraceProcess process_;
  std::vector<double> busy_until_s_;
};

std::string server_words(Phase phase) {
  switch (phase) {
    case Phase::push:
      return "receive gradients";
    case Phase::reduce:
      return "average";
    case Phase::optimizer:
      return "update";
    case Phase::pull:
      return "send the result";
    default:
      return std::string(to_string(phase));
  }
}

// The traced steps of workers, and the time that they took.
struct TracedTime {
  std::size_t steps = 0;
  double first_s = 0, last_s = 0;
};
// `host`: of the workers there; null: of all.
TracedTime traced_time(const std::vector<RankTrace>& workers, const std::string* host) {
  TracedTime all;
  for (const RankTrace& worker : workers) {
    if (worker.empty() || (host != nullptr && worker.host() != *host)) continue;
    all.first_s = all.steps == 0 ? worker.first_s() : std::min(all.first_s, worker.first_s());
    all.last_s = std::max(all.last_s, worker.last_s());
    all.steps = std::max(all.steps, worker.traced());
  }
  return all;
}

// Shows what a server did in the traced steps of its workers; nothing, where that is nothing. What
// it began in the last one may end after it.
void append_server(const std::vector<launch::TraceRecord>& records, int rank,
                   const TracedTime& traced, double origin_s, const std::string& label,
                   report::Trace& trace) {
  const int process = static_cast<int>(trace.processes.size());
  // The last start is that of the timed steps.
  std::uint32_t last = 0;
  for (const launch::TraceRecord& record : records) last = std::max(last, record.replica);
  std::map<std::uint32_t, std::pair<double, double>> rounds;  // of each step
  for (const launch::TraceRecord& record : records) {
    const bool shown = record.replica == last && record.step < traced.steps &&
                       record.begin_s >= traced.first_s && record.begin_s <= traced.last_s;
    if (!shown) continue;
    const double begin_s = record.begin_s - origin_s, end_s = record.end_s - origin_s;
    const auto phase = static_cast<Phase>(record.which);
    const bool computes = phase == Phase::reduce || phase == Phase::optimizer;
    trace.events.push_back({server_words(phase),
                            "phase",
                            process,
                            computes ? kCompute : kCommunication,
                            begin_s,
                            end_s,
                            {{"step", record.step}}});
    const auto round = rounds.try_emplace(record.step, begin_s, end_s).first;
    round->second.first = std::min(round->second.first, begin_s);
    round->second.second = std::max(round->second.second, end_s);
  }
  if (rounds.empty()) return;
  trace.processes.push_back(
      {process,
       fmt::format("rank {} (server)", rank),
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

// Names the run's processes: the run's title, which names what the lists of one command vary. A
// number follows where that is taken (`ddpbench tune` varies more).
std::string title_in(const report::Trace& trace, const TrainingJob& job) {
  const auto taken = [&trace](const std::string& title) {
    return std::ranges::any_of(trace.processes, [&](const report::TraceProcess& process) {
      return process.name.starts_with(title + ", rank ");
    });
  };
  std::string title = job.title;
  for (int number = 2; taken(title); ++number) title = fmt::format("{} ({})", job.title, number);
  return title;
}

// When the first of them begins.
std::optional<double> find_origin(const std::vector<RankTrace>& ranks) {
  std::optional<double> origin;
  for (const RankTrace& rank : ranks) {
    if (!rank.empty()) origin = std::min(origin.value_or(rank.begin_s()), rank.begin_s());
  }
  return origin;
}

}  // namespace

report::Trace trace_of_run(const TrainingJob& job, const launch::RankChannels& channels) {
  report::Trace trace;
  const RunRecords all = read_run_records(job, channels);
  const RankRecords& records = all.ranks;
  const double bound_s = all.clocks.bound_s();
  const int workers = static_cast<int>(records.steps.size());
  std::vector<RankTrace> ranks;
  std::uint64_t dropped = 0;
  for (int r = 0; r < channels.layout().ranks; ++r) {
    dropped += channels.dropped_trace(r);
    if (r >= workers) continue;
    std::uint32_t last = 0;
    for (const launch::TraceRecord& record : records.trace[static_cast<std::size_t>(r)]) {
      last = std::max(last, std::min(record.replica, kMostReplicas));
    }
    for (std::uint32_t i = 0; i <= last; ++i) ranks.emplace_back(trace, job, records, r, i);
  }
  const std::optional<double> origin = find_origin(ranks);
  // Times are those of the first host's clock.
  const std::string begin =
      origin && all.clocks.first_host() == host_name() ? wall_time(*origin) : "";
  const std::string label = begin.empty() ? "" : "time 0: " + begin;
  for (RankTrace& rank : ranks) {
    if (!rank.empty()) rank.append(*origin, label);
  }
  for (int r = workers; origin && r < channels.layout().ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    // Where clocks do not compare, the workers of its own host tell when the steps were.
    const bool one_clock = std::isfinite(bound_s);
    const TracedTime traced = traced_time(ranks, one_clock ? nullptr : &records.results[rank].host);
    append_server(records.trace[rank], r, traced, *origin, label, trace);
  }
  if (!begin.empty()) trace.metadata["time_0"] = begin;
  if (bound_s > 0) {
    trace.metadata["clocks"] =
        std::isfinite(bound_s)
            ? fmt::format("times of different hosts compare within {:.3g} us", bound_s * 1e6)
            : "not measured on all hosts: each begins at 0";
  }
  if (dropped > 0) trace.metadata["dropped"] = fmt::format("{} phases and layers", dropped);
  return trace;
}

void add_run(report::Trace& trace, const TrainingJob& job, report::Trace run) {
  trace.metadata["traced_steps"] =
      fmt::format("the first {} timed ones of every run", job.options.trace_steps);
  trace.metadata["time_0"] =
      "of every run: the begin of its first epoch, or of its first timed step";
  const std::string title = title_in(trace, job);
  for (const auto& [key, value] : run.metadata) trace.metadata[key + " of " + title] = value;
  std::map<int, int> numbers;  // by those in the run
  int next = trace.processes.empty() ? 0 : trace.processes.back().id + 1;
  const auto renumber = [&](int& process) {
    const auto [known, added] = numbers.try_emplace(process, next);
    if (added) ++next;
    process = known->second;
  };
  for (report::TraceProcess& process : run.processes) {
    renumber(process.id);
    process.name = title + ", " + process.name;
  }
  const auto move_to = [&](auto& all, auto& own) {
    for (auto& one : own) {
      renumber(one.process);
      all.push_back(std::move(one));
    }
  };
  std::ranges::move(run.processes, std::back_inserter(trace.processes));
  move_to(trace.events, run.events);
  move_to(trace.flows, run.flows);
  move_to(trace.counters, run.counters);
}

void write_trace(const report::Trace& trace, const std::string& path, bool force) {
  write_file(path, report::to_chrome_json(trace), {.force = force});
}

}  // namespace ddpbench::bench
