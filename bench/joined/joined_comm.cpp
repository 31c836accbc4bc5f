// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/comm/collective_rank.h"
#include "bench/host/build_info.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/joined/joined_devices.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/joined_rank.h"
#include "bench/joined/joined_world.h"
#include "bench/run/run_records.h"

namespace ddpbench::bench {
namespace {

class JoinedComm final : public JoinedRank {
 public:
  JoinedComm(const Options& options, const std::vector<std::string>& arguments,
             const launch::RankEnvironment& environment)
      : JoinedRank(options, environment),
        report_(
            arguments, ReportReader::user, environment.launcher,
            {.fill_in = [this](report::Report& report,
                               const launch::SuperviseResult& result) { fill_in(report, result); },
             .complete_head =
                 [this](report::Report& report) {
                   report.config_json = comm_config(this->options()).dump();
                 },
             .trace = {}}) {}

 private:
  PlanValues asked() const override;
  int workers() const override { return environment().world_size; }
  void plan(const HostDevices& host) override;
  launch::ChannelLayout layout() const override { return layout_; }
  PlanValues planned() const override;
  std::vector<int> cores() const override {
    return devices_.cores.at(static_cast<std::size_t>(environment().rank));
  }
  int work() override;
  JoinedReport& report() override { return report_; }

  void fill_in(report::Report& report, const launch::SuperviseResult& result) const;
  void say_begin() const;

  CommJob job_;         // GPUs have the world's numbers
  DevicePlan devices_;  // this rank's GPU has its own
  std::string device_note_;
  launch::ChannelLayout layout_;
  JoinedReport report_;
};

void JoinedComm::fill_in(report::Report& report, const launch::SuperviseResult& result) const {
  report.collectives.clear();
  report.memory_bandwidth.clear();
  std::optional<report::ErrorInfo> error;
  report.status = collect_comm(job_, channels(), result, report, error);
  if (result.interrupted && result.failure) error = failure_info(*result.failure);
  report.error = std::move(error);
  // Ranks that never met do not know which engine would have moved the data.
  if (report_.hosts().count() == 0 && job_.ranks > 1) report.collectives.clear();
}

PlanValues JoinedComm::asked() const {
  PlanValues values{{"WORLD_SIZE", std::to_string(environment().world_size)},
                    {"the program", version_text()},
                    {"the command", "comm"}};
  nlohmann::ordered_json config = comm_config(options());
  for (const char* const handling : {"command", "ranks", "mode", "timeout"}) config.erase(handling);
  for (const auto& [key, value] : config.items()) {
    values.push_back({key == "all_reduce" ? "--all-reduce" : "--" + key, value.dump()});
  }
  return values;
}

void JoinedComm::plan(const HostDevices& all) {
  HostDevices host = all;
  host.available_bytes = memory_limit(read_host_limits()).bytes;
  const int rank = environment().rank, size = environment().world_size;
  const JoinedHosts& hosts = peers().hosts();
  device_note_ = resolve_comm(options(), host, {environment().launcher, size});
  int here = size;
  if (hosts.are_several()) {
    options().backend = backend_over_hosts(options().backend, options().device, hosts);
    here = static_cast<int>(hosts.ranks(hosts.of(rank)).size());
  }
  job_ = make_comm_job(options(), size, host, options().all_reduces.front(), here);
  if (hosts.are_several()) job_.hosts = hosts.count();
  if (hosts.count() > 0) options().backend = job_.devices.backend;
  if (const auto own = own_cores(size, 1, environment(), hosts, host.cpu)) {
    job_.devices.cores.at(static_cast<std::size_t>(rank)) = *own;
  }
  // Until ranks see whether they share cores, they have room for all working sets.
  if (!job_.on_gpus()) job_.devices.oversubscribed = false;
  if (own_gpus()) give_own_gpus(*own_gpus(), job_.devices.gpus);
  choose_working_sets(job_);
  layout_ = channel_layout(job_);
  devices_ = job_.devices;
  take_own_gpu(devices_.gpus);
}

PlanValues JoinedComm::planned() const {
  nlohmann::json all = to_json(job_);
  for (const char* const own : {"cores", "gpus", "oversubscribed"}) all["devices"].erase(own);
  all.erase("timeout_s");
  return flat_values(all);
}

void JoinedComm::say_begin() const {
  if (!device_note_.empty()) say("{}\n", device_note_);
  if (const std::string note = rounding_note(options(), job_); !note.empty()) say("{}\n", note);
  if (!options().quiet) say("{}\n", title_of(job_));
}

int JoinedComm::work() {
  if (!job_.on_gpus()) job_.devices.oversubscribed = shares_cores();
  choose_working_sets(job_);
  prepare_engine(devices_, options().interface, environment(), peers().hosts());
  finish_engine(devices_.backend, environment(), engine_limits());
  if (is_first()) say_begin();
  std::optional<HangGuard> guard;  // outlives the measurement, whose end may hang, too
  guard_hangs(devices_.backend, guard);
  HangGuard* const guarding = guard ? &*guard : nullptr;
  std::unique_ptr<CommMeasurement> measurement;
  WorldOptions world;
  world.check = [this] { peers().check(); };
  if (peers().hosts().are_several()) world.address = peers().store().own_address();
  guarded({}, guarding, [&] {
    measurement = std::make_unique<CommMeasurement>(
        job_, devices_, environment().rank, *peers().store().get(), writer(), std::move(world));
  });
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
