// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_comm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/comm/comm_job.h"
#include "bench/comm/comm_rank.h"
#include "bench/comm/comm_session.h"
#include "bench/host/build_info.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/joined/joined_devices.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/joined_rank.h"
#include "bench/plan/training_job.h"
#include "bench/rank/rank_devices.h"
#include "bench/run/run_collector.h"

namespace ddpbench::bench {
namespace {

class CommReport final : public JoinedReport {
 public:
  CommReport(const std::vector<std::string>& arguments, std::string launcher,
             const CommOptions& options, const CommJob& job, const launch::RankChannels& channels)
      : JoinedReport(arguments, ReportReader::user, std::move(launcher)),
        options_(options),
        job_(job),
        channels_(channels) {}

 private:
  void complete_head(report::Report& report) const override {
    report.config_json = to_json(options_).dump();
  }
  void fill_in(report::Report& report, const launch::SuperviseResult& result) override {
    report.collectives.clear();
    report.memory_bandwidth.clear();
    std::optional<report::ErrorInfo> error;
    report.status = collect_comm(job_, channels_, result, report, error);
    if (result.interrupted && result.failure) error = failure_info(*result.failure);
    report.error = std::move(error);
    // Where ranks never met, nobody knows what would have moved the data.
    if (hosts().count() == 0 && job_.ranks > 1) report.collectives.clear();
  }
  int failed_exit_code(const report::Report&) const override { return kWrongResultExitCode; }

  const CommOptions& options_;
  const CommJob& job_;
  const launch::RankChannels& channels_;
};

class JoinedComm final : public JoinedRank {
 public:
  JoinedComm(const Options& options, const std::vector<std::string>& arguments,
             const launch::RankEnvironment& environment)
      : JoinedRank(options, environment),
        asked_(options),
        report_(arguments, environment.launcher, comm_, job_, channels()) {}

 private:
  PlanValues asked() const override;
  int workers() const override { return environment().world_size; }
  void plan(const HostDevices& host) override;
  launch::ChannelLayout layout() const override { return layout_; }
  PlanValues planned() const override;
  nlohmann::json own_facts() const override;
  void hear_facts(int rank, const nlohmann::json& facts) override;
  nlohmann::json decide() const override { return share_cores(ranks_); }
  void take_decision(const nlohmann::json& decided) override;
  int work() override;
  JoinedReport& report() override { return report_; }

  void say_begin() const;
  std::unique_ptr<CommMeasurement> connect();

  const Options asked_;
  CommOptions comm_;
  CommJob job_;         // GPUs have the world's numbers
  DevicePlan devices_;  // this rank's GPU has its own
  launch::ChannelLayout layout_;
  std::vector<PlacedRank> ranks_;  // on rank 0: all
  CommReport report_;
};

PlanValues JoinedComm::asked() const {
  const auto list = [](const std::vector<std::string>& words) {
    return fmt::format("{}", fmt::join(words, ","));
  };
  return {{"WORLD_SIZE", std::to_string(environment().world_size)},
          {"the program", version_text()},
          {"the command", "comm"},
          {"--op", list(asked_.operations)},
          {"--sizes", asked_.sizes},
          {"--device", asked_.device},
          {"--backend", asked_.backend},
          {"--all-reduce", list(asked_.all_reduces)},
          {"--oversubscribe", asked_.oversubscribe ? "on" : "off"},
          {"--type", asked_.type},
          {"--redop", asked_.reduction},
          {"--iterations", std::to_string(asked_.iterations)},
          {"--warmup", std::to_string(asked_.warmup)}};
}

void JoinedComm::plan(const HostDevices& all) {
  HostDevices host = all;
  host.available_bytes = memory_limit(read_host_limits()).bytes;
  const int rank = environment().rank, size = environment().world_size;
  const JoinedHosts& hosts = peers().hosts();
  comm_ = resolve(asked_, host, {environment().launcher, size});
  options().device = comm_.device;
  int here = size;
  if (hosts.are_several()) {
    comm_.backend = backend_over_hosts(comm_.backend, comm_.device, hosts);
    here = static_cast<int>(hosts.ranks(hosts.of(rank)).size());
  }
  job_ = make_comm_job(comm_, size, host, comm_.all_reduces.front(), here);
  if (hosts.are_several()) job_.hosts = hosts.count();
  if (hosts.count() > 0) comm_.backend = job_.devices.backend;
  if (const auto own = own_cores(size, 1, environment(), hosts, host.cpu)) {
    job_.devices.cores.at(static_cast<std::size_t>(rank)) = own->cores;
  }
  // Ranks learn from each other whether they share cores; until then they have room for all.
  if (!job_.on_gpus()) job_.devices.oversubscribed = false;
  if (own_gpus()) give_own_gpus(*own_gpus(), job_.devices.gpus);
  choose_working_sets(job_);
  layout_ = channel_layout(job_);
  devices_ = job_.devices;
  take_own_gpu(devices_.gpus);
}

nlohmann::json JoinedComm::own_facts() const {
  return {{"cores", job_.devices.cores.at(static_cast<std::size_t>(environment().rank))}};
}

void JoinedComm::hear_facts(int rank, const nlohmann::json& facts) {
  const JoinedHosts& hosts = peers().hosts();
  ranks_.push_back({hosts.count() > 0 ? hosts.of(rank) : 0, facts.at("cores")});
}

void JoinedComm::take_decision(const nlohmann::json& decided) {
  if (job_.on_gpus()) return;
  job_.devices.oversubscribed = devices_.oversubscribed = decided.get<bool>();
  choose_working_sets(job_);
}

PlanValues JoinedComm::planned() const {
  nlohmann::json all = to_json(job_);
  for (const char* const own : {"cores", "gpus", "oversubscribed"}) all["devices"].erase(own);
  all.erase("timeout_s");
  return flat_values(all);
}

void JoinedComm::say_begin() const {
  if (!comm_.device_note.empty()) say("{}\n", comm_.device_note);
  if (const std::string note = rounding_note(comm_, job_); !note.empty()) say("{}\n", note);
  if (!options().quiet) say("{}\n", title_of(job_));
}

std::unique_ptr<CommMeasurement> JoinedComm::connect() {
  const int rank = environment().rank;
  auto device = make_device(devices_, rank);
  device->bind_calling_thread();
  WorldOptions world{.timeout_s = limit_s(),
                     .thread_cores = devices_.cores.at(static_cast<std::size_t>(rank)),
                     .progress = [this] { writer().collective(); },
                     .joining = [this] { writer().state(launch::RankState::setup); },
                     .check = [this] { peers().check(); },
                     .all_reduce = comm::all_reduce_algorithm(job_.asked_all_reduce)};
  if (peers().hosts().are_several()) world.address = peers().store().own_address();
  auto connected = connect_devices(device, [&] {
    return make_world(devices_, *peers().store().get(), rank, job_.ranks, *device, world);
  });
  return std::make_unique<CommMeasurement>(job_, rank, std::move(connected), std::move(device),
                                           writer());
}

int JoinedComm::work() {
  prepare_engine(devices_, options().interface, environment(), peers().hosts());
  finish_engine(devices_.backend, environment(), engine_limits());
  if (is_first()) say_begin();
  std::optional<HangGuard> guard;  // outlives the measurement, whose end may hang, too
  guard_hangs(devices_.backend, guard);
  HangGuard* const guarding = guard ? &*guard : nullptr;
  writer().state(launch::RankState::setup);
  std::unique_ptr<CommMeasurement> measurement;
  guarded({}, guarding, [&] { measurement = connect(); });
  try {
    guarded({&measurement->world()}, guarding, [&] { measurement->run(); });
  } catch (...) {
    // A GPU that hangs would hold up who destroys its streams. The process ends anyway.
    left_behind() = job_.on_gpus();
    if (job_.on_gpus()) static_cast<void>(measurement.release());
    throw;
  }
  return complete();
}

}  // namespace

int join_comm(const Options& options, const std::vector<std::string>& arguments,
              const launch::RankEnvironment& environment) {
  return JoinedComm(options, arguments, environment).run();
}

}  // namespace ddpbench::bench
