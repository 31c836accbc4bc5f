// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Options: the fully resolved configuration of one command (docs/cli.md), from defaults,
// configuration file, DDPBENCH_ variables and flags, in that order (option_parser). Ranks receive
// the part that all runs share (RunOptions) as JSON, in a TrainingJob.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddpbench::bench {

// A fault or slowness planted for tests and demonstrations:
// "slow:rank=1,phase=backward,percent=25", "kill:rank=1,step=5", "stop:rank=1,step=5" (SIGSTOP),
// "throw:rank=1,step=5", "missing_bucket:bucket=0", "sum" (a sum for an average),
// "stale:rank=1,step=1" (one rank skips an update), "seed:rank=1" (one rank starts from other
// weights), "epoch" (no sampler is told of a new epoch).
struct Injection {
  std::string kind;
  int rank = -1;           // -1: all
  std::int64_t step = -1;  // counted over verification, warm-up and training (stale: since the last
                           // return to step 0); -1: every step
  std::string phase;
  double percent = 0;
  double ms = 0;  // milliseconds; 0: not given
  int bucket = 0;
  std::string text;  // as given

  bool operator==(const Injection&) const = default;
};

// Reads --inject: "kind:key=value,key=value".
// Throws ConfigError, with `where` in front. It refuses an unknown kind, key or phase (naming the
// nearest), a key that the kind does not take, a missing key, a key given twice, and wrong values.
Injection parse_injection(const std::string& text, const std::string& where);

// Whether the fault strikes calls of a communicator: stall, and slow without a phase.
bool strikes_calls(const Injection& injection);

// A share as people write it: "2%" is 2.
struct Percent {
  double value = 0;
  bool operator==(const Percent&) const = default;
};

// One number for all channels of images, or one a channel. Empty: not set.
struct PerChannel {
  std::vector<double> values;
  bool operator==(const PerChannel&) const = default;
};

// The data set's name that leaves the choice to the network.
inline constexpr const char* kAnyDataset = "auto";

inline constexpr std::int64_t kDefaultBatchSize = 64;  // as in configs/mnist.json
inline constexpr int kDefaultCycle = 4;                // of --sync-every
inline constexpr std::int64_t kWarmupLimitFactor = 10;
inline constexpr int kDefaultMicroBatches = 4;

// The options that have one value for all runs of a command.
struct RunOptions {
  std::string config_path;       // as resolved; empty: none
  std::string device = "auto";   // auto | cpu | cuda
  std::string backend = "auto";  // auto, a name of comm_backends() or its alias
  int epochs = 1;
  std::optional<std::int64_t> steps;  // per epoch, at most
  // On the test set; training ends when it is reached. At most one is set.
  std::optional<Percent> until_accuracy, until_miou;
  const std::optional<Percent>& wanted_accuracy() const {
    return until_miou ? until_miou : until_accuracy;
  }
  int warmup_steps = 10;  // at least; warm-up goes on until step times are steady
  std::optional<std::int64_t> warmup_max_steps;  // not set: kWarmupLimitFactor x warmup_steps
  int repetitions = 1;
  std::string order = "interleaved";  // interleaved | sequential
  std::optional<Percent> until_ci;    // repetitions go on until the interval is this narrow
  int max_repetitions = 30;           // with until_ci
  double max_minutes = 0;             // with until_ci; 0: no limit
  // For tune: pairs of fresh runs that judge its candidate, and the least gain to recommend it.
  int confirm_repetitions = 8;
  std::optional<Percent> least_gain = Percent{1};
  // For fit: memory of each device (empty: what it has), and the output's format (empty: table).
  std::string memory_per_device, format;
  std::uint64_t seed = 1;
  int threads_per_device = 1;
  std::string precision = "auto";      // auto | fp32 | tf32 | bf16 | fp16
  std::string residency = "host";      // host | device: where the training set lives
  bool deterministic = false;          // only algorithms whose results repeat bitwise
  std::string optimizer = "sgd";       // a word of ops::kOptimizerNames
  double lr = 0.01, weight_decay = 0;  // not given: the optimizer's own (option_source.h)
  double momentum = 0.9;               // sgd
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam, adamw
  std::string lr_scaling = "none";                    // none | linear
  std::string lr_schedule = "constant";               // a word of ops::kScheduleNames
  std::optional<std::int64_t> lr_step_size;           // step
  double lr_gamma = 0.1;                              // step
  std::optional<std::int64_t> lr_cosine_steps;  // cosine; not set: all steps after lr_warmup_steps
  double lr_min = 0;                            // cosine
  int lr_warmup_steps = 0;                      // over which the rate grows ...
  double lr_warmup_factor = 0.01;               // ... from this share of it
  std::string last_batch = "pad";               // pad | drop
  std::string cut;                              // pipeline: layers behind which it is cut
  std::string server_device = "auto";           // auto | cpu | cuda; for the servers of ps
  bool broadcast_buffers = true;
  bool sync_batch_norm = false;
  double loader_cost_us = 0;  // processor time a sample, spent by loader workers
  double emulate_gil_us = 0;  // processor time a call of a layer, under a lock a process
  std::string emulate_link;   // between ranks, as comm::parse_link reads it; empty: none
  int verify_steps = 3;
  bool observe = true;
  bool oversubscribe = false;
  double timeout_s = 300;
  std::string interface;  // that ranks of several hosts use: a name or an address; empty: automatic
  std::optional<std::int64_t> local_rank;  // of this process, as a launcher's argument tells it
  // Who starts the ranks of the runs, and where (bench/launchers/).
  std::string launcher;            // local | ssh | mpirun | srun; empty: local, or ssh with hosts
  std::string hosts, host_file;    // "a:2,b:2", or a file of such; at most one is set
  std::string remote_shell;        // a command with arguments; empty: ssh
  std::string remote_program;      // on the hosts; empty: this program's path
  std::string launcher_arguments;  // for mpirun or srun
  std::string json_path;           // empty: ddpbench-<UTC time>.json
  std::string resume_path;         // the report to complete; empty: none
  bool force = false;
  std::string trace_path;  // empty: none
  int trace_steps = 20;
  std::string save_model, load_model;
  std::string checkpoint, resume_training;  // files that training is saved to, and goes on from
  std::string checkpoint_every = "epoch";   // or a number of steps (checkpoint_interval)
  std::string data_dir;                     // empty: the default places
  std::vector<Injection> injections;
  bool dry_run = false, quiet = false, verbose = false;

  // Keys that only a configuration file has.
  std::string model = "simple_cnn";       // a name in configs/models, or a path
  std::string dataset = kAnyDataset;      // resolve_dataset (data_places.h) replaces kAnyDataset
  std::string on_missing = "synthesize";  // synthesize | error
  PerChannel dataset_mean, dataset_std;   // not set: the data set's own
  bool augment = false;                   // crop and flip training images
  int crop = 0;                           // side of the network's input; 0: as in its file
  std::string label;                      // names a run in place of its settings

  bool operator==(const RunOptions&) const = default;
};

// No part of a value, and so of no comparison.
struct GivenMark {
  bool is_set = false;
  bool operator==(const GivenMark&) const { return true; }
};

// The configuration of a command: the options above, and those that may list several values. The
// lists span a matrix of runs (bench/plan/sweep_plan.h); a run has one value of every list.
struct Options : RunOptions {
  std::vector<std::string> strategies = {"single"};
  std::vector<int> gpus = {1};  // empty with all_gpus
  bool all_gpus = false;        // --gpus=all; the supervisor resolves it into gpus = {their count}
  GivenMark gpus_given;         // whether --gpus was; below a launcher, all ranks are the default
  // After parsing, exactly one is not empty (kDefaultBatchSize per device when neither was given).
  std::vector<std::int64_t> batch_sizes;                   // per device; weak scaling
  std::vector<std::int64_t> global_batch_sizes;            // strong scaling
  std::vector<std::string> cuda_graphs = {"auto"};         // auto, or on | off
  std::vector<int> accumulation_steps = {1};               // passes of a step
  std::vector<std::string> accumulation_syncs = {"last"};  // last | every
  std::vector<int> sync_every;  // localsgd: steps of a cycle; empty: kDefaultCycle at most
  std::vector<double> outer_lrs = {1}, outer_momenta = {0};
  std::vector<std::string> comm_hooks = {"none"};  // encoding_of (parallel/comm_hook.h)
  std::vector<bool> overlaps = {true};
  std::vector<double> bucket_caps_mb = {25}, first_buckets_mb = {1};  // MiB
  std::vector<double> units_mb;  // zero3, MiB; empty: an eighth of the weights
  // pipeline: parts of the layers (empty: one a device), passes of a step (empty:
  // kDefaultMicroBatches at most), and their order.
  std::vector<int> stages, micro_batches;
  std::vector<std::string> schedules = {"1f1b"};  // 1f1b | gpipe
  std::vector<int> server_counts = {1};
  std::vector<std::string> ps_updates = {"server"};  // server | worker
  std::vector<std::string> ps_modes = {"sync"};      // sync | async
  std::vector<int> max_stalenesses = {4}, backup_workers = {0};
  std::vector<std::string> all_reduces = {"auto"};  // auto, or ring | direct
  std::vector<int> devices_per_process = {1};       // of ddp
  std::vector<int> loader_workers = {1};

  // What `comm` measures.
  std::vector<std::string> operations = {"all_reduce"};
  std::string sizes = "4K..128M";
  std::vector<std::string> ranks;  // empty: 2, or all that a launcher started
  std::string type = "fp32", reduction = "sum";
  std::string mode = "process";  // process | thread
  int iterations = 50;
  int warmup = 20;  // enough for WriteTuner to try non-temporal stores once

  // What the entries of a configuration's "runs" stand for (option_source.h): each is a matrix of
  // its own, of options that are whole and have no `runs`. Empty: the lists above span the only
  // matrix.
  std::vector<Options> runs;

  bool operator==(const Options&) const = default;
};

// The warm-up's limit: --warmup-max-steps, or its default; 0 when warmup_steps is 0.
std::int64_t warmup_limit(const RunOptions& options);

// After how many steps a run saves a checkpoint; 0: at the ends of epochs. Throws ConfigError.
std::int64_t checkpoint_interval(const RunOptions& options);

// Throws ConfigError where a result would be written over another one or over what the command
// reads, under whichever names: --force is about files of earlier commands. The report may replace
// the one of --resume, from which it grows.
void check_file_conflicts(const Options& options);

// Checks what holds between options: every device count divides a global batch, and no limit is
// below what it limits. Throws ConfigError. The parser calls it; the caller that turns --gpus=all
// into a number calls it again.
void check_options(const Options& options);

}  // namespace ddpbench::bench
