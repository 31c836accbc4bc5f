// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts one run in fresh processes: what they inherit, and how they are watched; here, or by the
// agents of RunHosts.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/plan/training_job.h"
#include "bench/rank/reference_weights.h"
#include "kernels/nn/model/model.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {

// Where a run stands among the runs of its command.
struct SweepPlace {
  std::size_t run = 1;             // its number, from 1
  std::size_t runs = 1;            // as many as there will be, this and the earlier ones included
  bool at_most = false;            // there may be fewer: --until-ci ends when the medians are known
  std::optional<double> later_s;   // estimate for the runs after it; nothing: not known
  std::optional<double> interval;  // --until-ci: relative width reached by the run's setting so far
  std::optional<double> wanted;    // --until-ci: the relative width to be reached
};

// Steps a second, from polls. A poll that sees no new step says nothing, because a step may take
// longer than the time between polls; nor does one that sees the state change.
struct StepRate {
  double seen_s = 0;  // when a step or a state was last seen to be new
  std::uint64_t step = 0;
  launch::RankState state = launch::RankState::starting;
  double steps = 0, time_s = 0;  // older parts count for less

  void see(double now_s, const launch::RankStatus& status);
  double per_s() const { return time_s > 0 ? steps / time_s : 0; }  // 0: not known yet
};

// Shows the progress of a run on stdout: a line that redraws on a terminal, plain lines otherwise.
class Progress {
 public:
  enum class Style : std::uint8_t { quiet, lines, redraw };
  explicit Progress(Style style) : style_(style) {}
  // Returns quiet with --quiet, else redraw when stdout is a terminal.
  static Style style_for_stdout(bool quiet);

  // Where the runs that begin from now on stand.
  void place(const SweepPlace& place) { place_ = place; }
  void begin(const TrainingJob& job);
  void update(const launch::RankChannels& channels, double now_s = steady_s());
  void show_decoding(std::int64_t done, std::int64_t of, const std::string& path);
  // Clears a redrawn line.
  void end();

 private:
  bool is_due(double now_s);
  void show(const std::string& text);
  std::string line(const launch::RankStatus& status, std::int64_t timed) const;
  std::string numbered() const;
  std::optional<double> left_s(const launch::RankStatus& status, std::int64_t timed) const;
  std::string stage(const launch::RankStatus& status, std::int64_t timed) const;

  Style style_;
  SweepPlace place_;
  TrainingJob job_;
  double begin_s_ = 0, next_line_s_ = 0;
  StepRate rate_;
  StatusLine status_line_;
};

// 4 for a rank that died, threw or stalled; its own error's code when the reason was the user's
// input, something unavailable, or a failed verification.
int failure_exit_code(const launch::RankError& error);

// The exit code of a run whose training diverged: the user's settings do not train.
inline constexpr int kDivergedExitCode = 2;

// Makes room for the records of all processes of the run.
launch::ChannelLayout channel_layout(const TrainingJob& job, const nn::ModelSpec& model);

// The reference that a run on hosts computes, or is verified against.
struct HostReference {
  std::string key;  // reference_key(); empty: none
  ReferenceWeights::Extent extent = {};
};

// What the processes of a run do; on hosts, each with one rank.
struct HostJob {
  std::string kind;            // by which they find it in their table of jobs (RankJobs)
  nlohmann::json description;  // on hosts, its devices' cores and GPUs are each host's own
  std::string plan;            // the JSON pointer of its DevicePlan in `description`
  std::string backend;
  std::vector<std::vector<int>> devices;  // [rank] those of the plan that it has; a server: its own
  int servers = 0;                        // of the ranks, the last
  int threads_per_device = 1;
  double timeout_s = 0;
  std::string interface;      // --interface
  bool is_reference = false;  // each host computes it, by a rank that is alone
  HostReference reference = {};
};
HostJob host_job(const TrainingJob& job, const HostReference& reference = {});

// Where the ranks of a matrix's runs are in place of this machine: agents (bench/launchers/) start
// them, and the supervisor watches them as its own children.
class RunHosts {
 public:
  virtual ~RunHosts() = default;

  // Puts the devices of the hosts in place of this machine's: GPUs if all ranks but the last
  // `servers_on_cpu` have one.
  virtual void find_devices(HostDevices& devices, int servers_on_cpu) const = 0;
  // How many ranks the hosts have room for: what --gpus=all stands for.
  virtual int slots() const = 0;
  // Puts what is known of the hosts in place of this machine's.
  virtual void describe(report::Environment& environment) const = 0;
  // Resolves --backend for the hosts on which `processes` with `devices` of one kind (cpu | cuda)
  // will run, the first of which has `first_devices`. Throws ConfigError or UnavailableError,
  // naming the hosts, if it cannot connect them.
  virtual std::string backend(const std::string& wanted, const std::string& device, int workers,
                              int servers, int first_devices) const = 0;
  // Has every host decode the data set of `options`, and returns what it is. Throws what a host
  // says that cannot, and ConfigError where hosts have different files.
  virtual data::DatasetInfo share_inputs(const Options& options) = 0;
  // Makes sure that the hosts of `job` can start it: some are started anew.
  virtual void prepare(const HostJob& job) = 0;
  // Starts the ranks of `job`, which write into `channels`, and returns when all are gone. A
  // reference is computed on every host, by a rank of `channels` each. REQUIRES: prepare(job).
  virtual launch::SuperviseResult run(const HostJob& job, launch::RankChannels& channels,
                                      const launch::SuperviseOptions& supervise) = 0;
  // How many ranks a reference has.
  virtual int count() const = 0;
  // Whether the devices of a machine have more threads than cores.
  virtual bool oversubscribes(const HostJob& job) const = 0;
  // Looks at each host of the job that was prepared last. That of rank 0 comes first.
  virtual std::vector<report::MachineSnapshot> snapshots() = 0;
  // Whether the hosts still have the reference that they computed last.
  virtual bool has_reference() = 0;
  // On how many hosts the first `ranks` are.
  virtual int hosts_of(int ranks) const = 0;
};

// Runs the processes of `job` and returns when all are gone: on `hosts`, if not null and prepared
// for it, else here, where rank r of the channels is of process r / `ranks_per_process` and each
// inherits `fds`. Ends early when interrupt_requested().
launch::SuperviseResult launch_job(const HostJob& job, int ranks_per_process,
                                   const std::vector<int>& fds, launch::RankChannels& channels,
                                   const std::function<void(const launch::RankChannels&)>& progress,
                                   RunHosts* hosts);

// The same of a training run; here, its processes inherit its dataset_fd and reference_fd.
launch::SuperviseResult launch_run(const TrainingJob& job, launch::RankChannels& channels,
                                   Progress& progress, RunHosts* hosts,
                                   const HostReference& reference = {});

}  // namespace ddpbench::bench
