// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The supervisor of one command, which never opens a device. RunExecutor makes single runs. Session
// checks what can be checked before training, makes the runs of a sweep in the order of its
// schedule, and writes the report, also between runs. And the studies: `ddpbench fit`, the largest
// batch a device for every strategy, from memory plans alone; `ddpbench tune`, which tries bucket
// sizes of ddp and confirms the best against the default with fresh runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/options/options.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/plan/training_job.h"
#include "bench/rank/reference_weights.h"
#include "bench/run/launch_run.h"
#include "bench/run/report_output.h"
#include "kernels/nn/model/model.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// How many operations a second the CPU devices of a run could do at most, measured before the run:
// multiply-adds in registers, in fp32 or bf16 as the run's products are.
class PeakRates {
 public:
  // Measures one device of the run while all do the same, 15 ms a set of cores and precision.
  // The rate is missing where a device is no CPU, shares its cores, or computes in AMX's tiles.
  report::Figure of(const TrainingJob& job);

 private:
  // The keys are cores and a precision; a figure is that of all the cores together.
  std::map<std::pair<std::vector<int>, std::string>, report::Figure> known_;
};

// Holds what single runs share: the network, the decoded data set, and the references that runs are
// verified against.
class RunExecutor {
 public:
  // `options`: resolved (device, backend, number of devices); they outlive the executor. Finds
  // network and data set. Throws ConfigError when they are missing or do not fit each other.
  // `hosts`, if not null, have the ranks, and outlive the executor.
  RunExecutor(const Options& options, const HostDevices& host, RunHosts* hosts = nullptr);

  const data::DatasetInfo& dataset() const { return dataset_info_; }
  const nn::ModelSpec& model() const { return model_; }
  const std::string& model_path() const { return network_.path; }

  // Plans the job of a cell. Throws ConfigError for one that cannot work.
  TrainingJob plan(const RunCell& cell) const;
  // Decodes the data set, once, before the first run, where the ranks are this process's own.
  void decode();
  // Where the runs from now on stand among those of the command, to be shown with their progress.
  void place(const SweepPlace& place) { progress_.place(place); }
  // Runs the cell in fresh processes. A failure is an outcome, not an exception: the returned run
  // has it, and stderr shows it.
  report::Run run(const RunCell& cell);
  // Sets up the cell's processes as run() would, and its reference's, and ends them before they
  // train; the first cell of a batch size takes steps, to tell how long they are. Returns how long
  // run() will take, and nothing when interrupted. A failure is an outcome, as in run().
  std::optional<double> rehearse(const RunCell& cell);
  // The exit codes of the runs that have failed so far, in order.
  const std::vector<int>& exit_codes() const { return exit_codes_; }
  // With --trace: the first timed steps of the runs so far.
  RunsTrace trace() const { return {&trace_, traced_runs_}; }

 private:
  report::Run run_job(TrainingJob& job);
  void note_failure(const std::string& title, int exit_code, const std::string& message);
  void note_failure(const std::string& title, const launch::RunFailure& failure);
  // Computes the reference of the job, once for all runs that share it, if it needs one, and sets
  // its reference_fd, or `on_hosts`. Returns why it could not be computed; nothing also where it
  // was interrupted.
  std::optional<launch::RunFailure> find_reference(TrainingJob& job, HostReference& on_hosts);
  launch::RankChannels channels_for(const TrainingJob& job) const;
  std::vector<report::MachineSnapshot> snapshots() const;
  void make_room_for(std::size_t bytes);

  const Options& options_;
  const HostDevices& host_;
  RunHosts* hosts_;  // null: this process starts the ranks
  nn::ModelSpec model_;
  Network network_;
  std::unique_ptr<data::DatasetSource> source_;
  data::DatasetInfo dataset_info_;
  SharedMemory dataset_;
  Progress progress_;
  std::map<std::string, ReferenceWeights> references_;
  std::string reference_on_hosts_;  // the key of the one that they have; empty: none
  std::set<std::string> rehearsed_references_;
  // Seconds of a step by entry and batch, on a core or GPU of its own.
  std::map<std::pair<std::size_t, std::int64_t>, double> rehearsed_step_s_;
  PeakRates peaks_;
  std::vector<int> exit_codes_;
  report::Trace trace_;
  std::size_t traced_runs_ = 0;
};

// The median step time of a run that ended well; nothing for others and for null.
std::optional<double> step_time(const report::Run* run);

// Resolves --device, --gpus=all and what depends on them for the devices of `host`, or of `hosts`
// if not null. Returns why --device=auto was resolved so.
std::string resolve_devices(Options& options, const HostDevices& host,
                            const RunHosts* hosts = nullptr);

class Session {
 public:
  // Throws ConfigError or UnavailableError for what cannot work, before anything is started.
  // `hosts`: where the ranks are; null: they are processes of this one.
  Session(Options options, std::vector<std::string> arguments,
          std::unique_ptr<RunHosts> hosts = nullptr);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs everything; returns the command's exit code. Prints progress, table and the report's path.
  int run();

  // The parts of run(), for commands that sweep more than once.
  const Options& options() const { return options_; }
  const nn::ModelSpec& model() const { return executor_->model(); }
  const std::vector<RunCell>& cells() const { return cells_; }
  // With --dry-run: sets all runs up without training, and says how long `runs` of them take.
  // Returns the exit code that the runs would have by then.
  int rehearse(std::size_t runs);
  // Makes the runs of `schedule`, whose cells are indices into cells(); false when interrupted.
  bool sweep(SweepSchedule& schedule);
  // The run of a slot; null when it was not made.
  const report::Run* find(Slot slot) const;
  report::Report& report() { return report_; }
  int finish();

 private:
  void print_plan() const;
  SweepPlace place_of(Slot slot, std::size_t made, const SweepSchedule& schedule,
                      double elapsed_s) const;
  void resolve_options();
  void drop_equal_cells();
  void adopt(report::Report earlier);
  void keep(Slot slot, report::Run run);
  void drop_unwanted();
  void settle();
  void save_partial();

  Options options_;
  std::unique_ptr<RunHosts> hosts_;
  HostDevices host_;
  std::vector<std::string> notes_;  // to be said before the first run; some are empty
  ReportOutput file_;
  double saved_s_ = 0, save_cost_s_ = 0;  // of the last partial report
  std::optional<RunExecutor> executor_;
  std::vector<RunCell> cells_;  // of different runs
  report::Report report_;
  std::vector<Slot> slots_;  // of the report's runs, which are sorted by slot
  int first_sequence_ = 0;   // of this command's runs; --resume's come before
  int next_sequence_ = 0;
  bool interrupted_ = false;
  bool told_of_disturbance_ = false;
};

// The studies (fit.cpp, tune.cpp).

// Prints the table of largest batches; returns the exit code. Throws ConfigError and
// UnavailableError as a run would that finds no network, data or device.
int run_fit(Options options);

// The batches that are considered: 1 to 8, then multiples of 8, which micro-batches divide.
inline constexpr std::int64_t kBatchStep = 8;
inline constexpr std::int64_t kLargestFit = std::int64_t{1} << 20;

struct BatchRange {
  std::int64_t smallest = 1;  // that can be planned
  std::int64_t largest = 0;   // that fits; 0: none does
  std::int64_t beyond = 0;    // the first that does not fit; 0: no limit was found
};

// Returns the largest considered batch whose share of the memory is at most 1, such that the next
// one's is more. `share` may throw ops::BatchTooLarge, which is a limit like memory, and
// ops::BatchTooSmall. A network that cannot be planned for kBatchStep samples cannot be planned:
// that error is thrown.
BatchRange largest_batch(const std::function<double(std::int64_t batch)>& share);

// Sizes in bytes of the gradient buckets that ddp makes of `model`, in the order of sending. Like
// plan_buckets, but from the shapes alone: a device's memory layouts may pad tensors a little.
std::vector<std::size_t> bucket_bytes(const nn::ModelSpec& model, double first_bucket_mb,
                                      double bucket_cap_mb);

// Fills empty lists of bucket sizes and overlap with sizes that suit the model. PyTorch's defaults
// (1 and 25 MiB, overlap on) come first in all of them.
void fill_tune_lists(Options& options, const nn::ModelSpec& model);

// Returns the cells of one ddp world that are worth a run: the first, which is the default, and one
// for every other way to cut the gradients. Without overlap, buckets only cost: there, only the
// default's buckets and the fewest are worth a run.
std::vector<std::size_t> distinct_settings(const std::vector<RunCell>& cells,
                                           const nn::ModelSpec& model);

// Runs everything and writes the report; returns the exit code. Throws ConfigError for options that
// make several worlds or batches, or one device.
int run_tune(Options options, std::vector<std::string> arguments);

}  // namespace ddpbench::bench
