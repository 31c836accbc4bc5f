// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "bench/host/environment_capture.h"
#include "bench/rank/rank_result.h"
#include "bench/run/arrivals.h"
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
  // `replica`: its index in process `rank`. `buckets`: of that process.
  RankTrace(report::Trace& trace, const TrainingJob& job, const launch::RankChannels& channels,
            std::span<const launch::BucketRecord> buckets, int rank, std::uint32_t replica)
      : trace_(trace),
        job_(job),
        result_(decoded_rank_result(channels.result(rank))),
        steps_(channels.steps(rank)),
        buckets_(buckets),
        records_(channels.trace(rank)),
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

  void append(int process, const std::string& title, double origin_s, const std::string& label) {
    origin_s_ = origin_s;
    process_.label = label;
    process_.id = process;
    process_.name = fmt::format("{}, rank {}", title, rank_ + static_cast<int>(replica_));
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
  RankResult result_;
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

// What a server did in the traced steps of its workers.
class ServerTrack {
 public:
  ServerTrack(const launch::RankChannels& channels, int rank)
      : host_(decoded_rank_result(channels.result(rank)).host), rank_(rank) {
    // The last start is that of the timed steps.
    std::uint32_t last = 0;
    for (const launch::TraceRecord& record : channels.trace(rank)) {
      last = std::max(last, record.replica);
    }
    for (const launch::TraceRecord& record : channels.trace(rank)) {
      if (record.replica == last) records_.push_back(record);
    }
  }

  const std::string& host() const { return host_; }

  // Leaves out what is not of the steps [0, steps), which lie between the two moments. What a
  // server began in the last one may end after it.
  void keep(std::size_t steps, double first_s, double last_s) {
    std::erase_if(records_, [&](const launch::TraceRecord& record) {
      return record.step >= steps || record.begin_s < first_s || record.begin_s > last_s;
    });
  }
  bool empty() const { return records_.empty(); }

  void append(report::Trace& trace, int process, const std::string& title, double origin_s,
              const std::string& label) const {
    trace.processes.push_back(
        {process,
         fmt::format("{}, rank {} (server)", title, rank_),
         {{kSteps, "steps"}, {kCompute, "compute"}, {kCommunication, "communication"}},
         label});
    std::map<std::uint32_t, std::pair<double, double>> rounds;  // of each step
    for (const launch::TraceRecord& record : records_) {
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
      const auto [round, added] = rounds.try_emplace(record.step, begin_s, end_s);
      round->second.first = std::min(round->second.first, begin_s);
      round->second.second = std::max(round->second.second, end_s);
    }
    for (const auto& [step, round] : rounds) {
      trace.events.push_back(
          {fmt::format("step {}", step), "step", process, kSteps, round.first, round.second, {}});
    }
  }

 private:
  static std::string server_words(Phase phase) {
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

  std::string host_;
  int rank_;
  std::vector<launch::TraceRecord> records_;
};

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

// The records of all ranks; servers have none.
WorkerRecords records_of(const TrainingJob& job, const launch::RankChannels& channels) {
  WorkerRecords records;
  std::string host;
  bool one_host = true;
  for (int r = 0; r < channels.layout().ranks; ++r) {
    const auto steps = channels.steps(r);
    const auto buckets = channels.buckets(r);
    records.steps.emplace_back(steps.begin(), steps.end());
    records.buckets.emplace_back(buckets.begin(), buckets.end());
    const std::string own = decoded_rank_result(channels.result(r)).host;
    if (r == 0) host = own;
    one_host = one_host && own == host && !own.empty();
  }
  fill_arrivals(records, one_host, !strategy_traits(job.cell.strategy).has_servers);
  return records;
}

}  // namespace

namespace {

// Processes of a host share one clock. Different hosts are aligned at their begin.
using Origins = std::map<std::string, double>;  // by host

Origins find_origins(const std::vector<RankTrace>& ranks) {
  Origins origins;
  for (const RankTrace& rank : ranks) {
    if (rank.empty()) continue;
    const auto [origin, added] = origins.try_emplace(rank.host(), rank.begin_s());
    origin->second = std::min(origin->second, rank.begin_s());
  }
  return origins;
}

// Keeps what the servers did in the steps of the workers on their hosts.
std::vector<ServerTrack> find_servers(const TrainingJob& job, const launch::RankChannels& channels,
                                      const std::vector<RankTrace>& workers) {
  std::vector<ServerTrack> servers;
  for (int r = job.cell.world_size; job.cell.servers > 0 && r < channels.layout().ranks; ++r) {
    ServerTrack server(channels, r);
    std::size_t steps = 0;
    double first_s = 0, last_s = 0;
    for (const RankTrace& worker : workers) {
      if (worker.empty() || worker.host() != server.host()) continue;
      first_s = steps == 0 ? worker.first_s() : std::min(first_s, worker.first_s());
      last_s = std::max(last_s, worker.last_s());
      steps = std::max(steps, worker.traced());
    }
    server.keep(steps, first_s, last_s);
    if (!server.empty()) servers.push_back(std::move(server));
  }
  return servers;
}

}  // namespace

void add_run(report::Trace& trace, const TrainingJob& job, const launch::RankChannels& channels) {
  const WorkerRecords records = records_of(job, channels);
  const int workers = job.cell.servers > 0 ? job.cell.world_size : channels.layout().ranks;
  std::vector<RankTrace> ranks;
  std::uint64_t dropped = 0;
  for (int r = 0; r < channels.layout().ranks; ++r) {
    dropped += channels.dropped_trace(r);
    if (r >= workers) continue;
    std::uint32_t last = 0;
    for (const launch::TraceRecord& record : channels.trace(r)) {
      last = std::max(last, std::min(record.replica, kMostReplicas));
    }
    const auto& buckets = records.buckets[static_cast<std::size_t>(r)];
    for (std::uint32_t i = 0; i <= last; ++i) {
      ranks.emplace_back(trace, job, channels, buckets, r, i);
    }
  }
  const Origins origins = find_origins(ranks);
  const std::string title = title_in(trace, job);
  const auto begin = origins.find(host_name());
  const std::string label =
      begin == origins.end() ? "" : fmt::format("time 0: {}", wall_time(begin->second));
  int process = trace.processes.empty() ? 0 : trace.processes.back().id + 1;
  for (RankTrace& rank : ranks) {
    if (!rank.empty()) rank.append(process++, title, origins.at(rank.host()), label);
  }
  for (const ServerTrack& server : find_servers(job, channels, ranks)) {
    server.append(trace, process++, title, origins.at(server.host()), label);
  }
  trace.metadata["traced_steps"] =
      fmt::format("the first {} timed ones of every run", job.options.trace_steps);
  trace.metadata["time_0"] =
      "of every run and host: the begin of its first epoch, or of its first timed step";
  if (begin != origins.end()) trace.metadata["time_0 of " + title] = wall_time(begin->second);
  if (dropped > 0) {
    trace.metadata["dropped of " + title] = fmt::format("{} phases and layers", dropped);
  }
}

void write_trace(const report::Trace& trace, const std::string& path, bool force) {
  write_file(path, report::to_chrome_json(trace), {.force = force});
}

}  // namespace ddpbench::bench
