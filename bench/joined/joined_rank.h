// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedRank: one rank of a joined world, whatever its ranks do together. It meets the others,
// makes sure that all have planned the same, and when one fails ends with them and sees to it that
// one report says why.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "bench/joined/end_watch.h"
#include "bench/joined/joined_devices.h"
#include "bench/joined/joined_peers.h"
#include "bench/joined/joined_plan.h"
#include "bench/joined/joined_report.h"
#include "bench/joined/joined_verdict.h"
#include "bench/options/options.h"
#include "parallel/comm/comm_module.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

class JoinedRank {
 public:
  // Until here the peers read and write the channels.
  virtual ~JoinedRank() { peers_.leave(); }
  JoinedRank(const JoinedRank&) = delete;
  JoinedRank& operator=(const JoinedRank&) = delete;

  // Returns this rank's exit code. Throws what refuses the command before anything was begun.
  int run();

 protected:
  // Uses of `options` the device, the interface, the time limit, the files, --dry-run and --quiet.
  JoinedRank(Options options, const launch::RankEnvironment& environment);

  // ---- what ranks do, in this order ----

  // What they were asked for, on which they must agree.
  virtual PlanValues asked() const = 0;
  // So many of the lowest ranks take a GPU each, where the world is on GPUs.
  virtual int workers() const = 0;
  // Plans for what all ranks together have, and resolves options().device. Where GPUs are many
  // processes', own_gpus() has this rank's.
  virtual void plan(const HostDevices& host) = 0;
  // What plan() has made: the records of all ranks, and what all ranks must have planned alike.
  virtual launch::ChannelLayout layout() const = 0;
  virtual PlanValues planned() const = 0;
  virtual std::vector<int> cores() const = 0;  // of this rank's device; none on a GPU
  // Everything else. Ends with complete(). Returns the exit code.
  virtual int work() = 0;

  virtual JoinedReport& report() = 0;

  // ---- for work() ----

  // Set where something was left behind whose device may hang: the process then ends at once.
  bool& left_behind() { return left_behind_; }
  // Between GPUs of many processes: the plan's GPU of this rank becomes its own number for it.
  void take_own_gpu(std::vector<int>& gpus) const;
  // Calls `body` and meanwhile ends the waits in `communicators` when the world ends.
  void guarded(std::vector<comm::Communicator*> communicators, HangGuard* guard,
               const std::function<void()>& body);
  // Makes the guard where the library of `backend` may keep a thread.
  void guard_hangs(const std::string& backend, std::optional<HangGuard>& guard);
  // How long to wait for the others while an engine is made, and what ends that.
  WorldOptions engine_limits();
  // All ranks come here when they have run to the end. Rank 0 writes the report. Returns the exit
  // code.
  int complete();

  bool is_first() const { return environment_.rank == 0; }
  bool is_alone() const { return environment_.world_size == 1; }
  Options& options() { return options_; }
  const Options& options() const { return options_; }
  const launch::RankEnvironment& environment() const { return environment_; }
  JoinedPeers& peers() { return peers_; }
  const std::optional<JoinedGpus>& own_gpus() const { return own_gpus_; }
  // Whether ranks of a host share cores, which none knows alone: launchers bind each to its own.
  bool shares_cores() const { return shares_cores_; }
  const launch::RankChannels& channels() const { return channels_; }
  launch::RankWriter& writer() { return writer_; }
  double limit_s() const;

 private:
  void meet_and_plan();
  bool shares_gpus_with_peers() const;
  HostDevices find_world_devices();
  void plan_for(const HostDevices& host);
  void agree();
  void open_channels(const nlohmann::json& agreed);
  void use(launch::RankChannels channels);
  int finish_report();
  [[noreturn]] void end_hanging(const std::exception& error);

  int fail(const std::exception& error);
  bool is_told();
  void report_failure(const std::exception& error, Verdict& verdict);
  bool await_cause(const std::exception& error, Verdict& verdict);
  double left_before_kills_s() const { return peers_.left_before_kills_s(failed_s_); }
  Verdict judge(const std::exception& error) const;
  void prepare_report();
  void reserve_report();

  Options options_;
  launch::RankEnvironment environment_;
  JoinedPeers peers_;
  JoinedStore& store_ = peers_.store();
  std::optional<JoinedGpus> own_gpus_;        // set where several processes have GPUs
  std::optional<HostDevices> gpus_of_world_;  // set on GPUs
  bool planned_ = false;                      // plan() has returned
  bool agreed_ = false;                       // all ranks' have, and they map channels_
  bool shares_cores_ = false;
  MemoryKills memory_kills_ = read_memory_kills();
  launch::RankChannels channels_;  // of all ranks
  launch::RankWriter writer_;
  bool left_behind_ = false;
  double failed_s_ = 0;  // when fail() began
};

}  // namespace ddpbench::bench
