// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of the table of options, but those of training. A new option needs a member of Options,
// a row here, and docs/cli.md and configs/schema/config.schema.json generated anew (the tests say
// how).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/ranges.h"
#include "bench/options/option_table.h"
#include "parallel/comm_backends.h"
#include "parallel/strategies.h"
#include "reports/exports/records.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {
namespace {

// Returns "single: one device. dp: one process, a thread per device." and so on.
std::string strategies_in_words() {
  return joined(
      all_strategies() | std::views::filter(&StrategyTraits::is_listed), "",
      [](const StrategyTraits& row) { return fmt::format("{}: {}. ", row.name, row.words); });
}

constexpr double kMostCrop = 8192;
constexpr double kMostThreads = 4096, kMostTracedSteps = 1e4, kMostCommIterations = 1e5;

Definitions comparison_options() {
  return {
      {"strategy", kPerRun | kPlannedByFit | kNotOfTune, "", &Options::strategies,
       all_or_some_of(known_strategies()),
       strategies_in_words() +
           "Launched ranks, --save-model and --checkpoint default to single. Without --strategy, "
           "--gpus and --config, configs/quick.json is compared: single, dp, ddp and ps on 1 and 2 "
           "devices, 2 epochs of 200 steps. A --model of a billion operations a sample makes that "
           "configs/quick-large.json: 20 steps of 8 samples a device.",
       "all"},
      {"gpus", kPerRun | kPlannedByFit, "LIST|all", GpuList{}, between(1, kMostDevices),
       "Numbers of devices (of CPU devices too), separated by commas; all: as many as there are. "
       "single runs once, on one device, whatever is listed. Without --strategy and --config: "
       "see --strategy.",
       "", "", OnlyWith{}, "--devices"},
      {"model", kPlannedByFit, "NAME|FILE", &Options::model, anything(),
       "The network: a name that `ddpbench models` lists, or a file (also beside --config's)."},
      {"dataset", kPlannedByFit, "NAME", &Options::dataset, anything(),
       "The data set. auto: the first known one whose images and classes fit the network, else "
       "synthetic. synthetic: images drawn in the network's own shape and classes.",
       "", "/dataset/name"},
      {"config", kPlannedByFit | kFreeOnResume | kNoKey, "NAME", &Options::config_path, anything(),
       "Configuration file: a path, a name in the configs directory (with or without .json), or - "
       "for standard input.",
       "none"},
      {"device", kPlannedByFit | kOfComm, "", &Options::device, one_of({"auto", "cpu", "cuda"}),
       "Kind of device. auto takes CUDA when a GPU is there, and says which it took."},
      {"backend", kPlannedByFit | kOfComm, "", &Options::backend, one_of(backend_words()),
       backend_help()},
      {"precision", kPerRun | kPlannedByFit, "", &Options::precision,
       one_of({"auto", "fp32", "tf32", "bf16", "fp16"}),
       "What products are computed in; weights, gradients and updates are fp32 in all. auto: fp32 "
       "on CPU devices, tf32 on CUDA devices that have it. bf16 on CPU devices needs avx512_bf16 "
       "or AMX (`ddpbench info` says). fp16, on CUDA devices, scales the loss as torch.amp's "
       "GradScaler does."},
  };
}

Definitions strategy_options() {
  return {
      {"overlap", kPerRun | kBare, "on|off,...", &Options::overlaps, anything(),
       "ddp, ps, zero1, zero2, pipeline: send buckets or shards while backward still runs, or "
       "after it (zero2: between buckets). zero3: gather the next unit's weights while one is "
       "computed, or when they are needed."},
      {"bucket-cap-mb", kPerRun | kBare, "MIB,...", &Options::bucket_caps_mb, positive(),
       "ddp, zero1, zero2, localsgd: largest bucket of gradients (or weights), in MiB."},
      {"unit-mb", kPerRun | kPlannedByFit | kBare, "MIB,...", &Options::units_mb, positive(),
       "zero3: layers whose weights are gathered together, in MiB; two such units are held.",
       "an eighth of the weights, at least 0.125"},
      {"first-bucket-mb", kPerRun | kBare, "MIB,...", &Options::first_buckets_mb, positive(),
       "The same: the first bucket, in MiB; small, so that communication starts early."},
      {"all-reduce", kPerRun | kOfComm | kBare, "", &Options::all_reduces,
       one_of({comm::kAllReduceAlgorithms.begin(), comm::kAllReduceAlgorithms.end()}),
       "ddp, localsgd: how gradients or weights are summed. ring: 2 (n - 1) steps between n ranks, "
       "each with one neighbour; direct: 2 steps, each with all others. auto: what the backend "
       "does best; the report says which it was. nccl, gloo and mpi run their own and take auto "
       "only."},
      {"comm-hook", kPerRun | kPlannedByFit | kBare, "HOOK,...", &Options::comm_hooks, anything(),
       "ddp: how gradients travel. bf16, fp16: in that type. int8: as bytes with a scale for each "
       "256. topk:P: the largest P percent. powersgd:R: matrices as products of rank R. What the "
       "last three do not send is added in the next step. Such runs are approximate."},
      {"devices-per-process", kPerRun | kPlannedByFit | kBare, "K,...",
       &Options::devices_per_process, between(1, kMostDevices),
       "ddp, zero1 to zero3, localsgd: how many devices each process drives, with a thread and a "
       "rank for each (PyTorch's older DistributedDataParallel with several device_ids). It "
       "divides --gpus."},
      {"stages", kPerRun | kPlannedByFit | kBare, "P,...", &Options::stages,
       between(1, kMostDevices),
       "pipeline: parts of the layers, one a device. It divides --gpus: more devices make several "
       "pipelines, which average gradients as ddp does.",
       "as many as devices, or as the network has"},
      {"micro-batches", kPerRun | kPlannedByFit | kBare, "M,...", &Options::micro_batches,
       between(1, kMostAccumulationSteps),
       "pipeline: parts of the batch of a pipeline's devices, which follow each other through it. "
       "1 is naive model parallelism: one device works.",
       std::to_string(kDefaultMicroBatches)},
      {"schedule", kPerRun | kPlannedByFit | kBare, "", &Options::schedules,
       one_of({"1f1b", "gpipe"}),
       "pipeline: gpipe: all forward passes, then backward. 1f1b: in turn, with fewer in flight."},
      {"cut", kPerRun | kPlannedByFit, "LAYER,...", &Options::cut, anything(),
       "pipeline: the layers behind which the parts end, all but the last (`ddpbench models "
       "--cuts` lists them).",
       "parts of equal operations"},
      {"broadcast-buffers", kPerRun, "on|off", &Options::broadcast_buffers, anything(),
       "ddp, zero1 to zero3: before each step all ranks take rank 0's running statistics "
       "(PyTorch's buffers), or each keeps its own."},
      {"sync-batch-norm", kPerRun | kPlannedByFit, "on|off", &Options::sync_batch_norm, anything(),
       "on: batch norm takes mean and variance of the global batch, which the devices exchange in "
       "forward and backward (PyTorch's SyncBatchNorm). off: each device takes those of its own "
       "samples. A network without batch norm is refused."},
      {"servers", kPerRun | kPlannedByFit | kBare, "N,...", &Options::server_counts,
       between(1, kMostDevices), "ps: server processes, each with a shard of the parameters."},
      {"ps-update", kPerRun | kPlannedByFit | kBare, "", &Options::ps_updates,
       one_of({"server", "worker"}),
       "ps: who updates. Workers pull parameters from a server that does, averaged gradients from "
       "one that does not."},
      {"ps-mode", kPerRun | kBare, "", &Options::ps_modes, one_of({"sync", "async"}),
       "ps: sync: a server updates by the mean of all workers' gradients. async: by each gradient "
       "as it comes, and answers that worker at once."},
      {"max-staleness", kPerRun | kBare, "K,...", &Options::max_stalenesses, between(0, 1e9),
       "ps, async: a worker that is more than K steps ahead of the slowest waits. 0 is sync."},
      {"backup-workers", kPerRun | kBare, "B,...", &Options::backup_workers,
       between(0, kMostDevices),
       "ps, sync: take the first gradients of each step, and drop those of the last B workers."},
      {"server-device", kPerRun | kPlannedByFit, "", &Options::server_device,
       one_of({"auto", "cpu", "cuda"}),
       "ps: kind of device that servers are on, beside workers on GPUs; auto: as the workers. On "
       "cpu a server takes cores and no GPU, and shards pass through page-locked host memory."},
      {"threads-per-device", kPlannedByFit, "N", &Options::threads_per_device,
       between(1, kMostThreads),
       "Compute threads of a CPU device, the same for every run of a report."},
      {"loader-workers", kPerRun | kPlannedByFit | kBare, "N,...", &Options::loader_workers,
       between(0, kMostThreads),
       "Threads per rank that assemble batches ahead; 0: the training thread does it."},
      {"oversubscribe", kOfComm, "", &Options::oversubscribe, anything(),
       "Let ranks share GPUs, and more than 16 CPU devices a core; such runs are marked."},
      {"cuda-graph", kPerRun | kBare, "", &Options::cuda_graphs, one_of({"auto", "on", "off"}),
       fmt::format(
           "Record a step as a CUDA graph and replay it, so that it costs the host one call. auto: "
           "where the strategy allows it ({}). on,off: such strategies with and without.",
           fmt::join(known_strategies(&StrategyTraits::records_steps), ", "))},
      {"residency", kPlannedByFit, "", &Options::residency, one_of({"host", "device"}),
       "Where the training set lives. host: loader threads assemble batches, which are copied to "
       "CUDA devices ahead of the steps. device (CUDA): a copy on the first device of each "
       "process, which assembles its batches itself."},
      {"deterministic", kPlannedByFit, "", &Options::deterministic, anything(),
       "On CUDA devices, and AMX in bf16, use only algorithms whose results repeat bit by bit."},
  };
}

// What makes a machine slower than it is, on purpose.
Definitions emulation_options() {
  return {
      {"loader-cost", kPerRun, "US", &Options::loader_cost_us, between(0, 1e6),
       "Microseconds of processor time that loader workers spend on each training sample, as "
       "transforms in Python would; runs are marked with it."},
      {"emulate-gil", kPerRun, "US", &Options::emulate_gil_us, between(0, 1e6),
       "Microseconds of processor time to launch each call of a layer, forward and backward, under "
       "one lock per process. dp's replicas share it as threads of Python would, and ddp's with "
       "--devices-per-process; other ranks have their own. Runs are marked with it."},
      {"emulate-link", kPerRun | kOfComm, "RATE,LATENCY", &Options::emulate_link, anything(),
       "Over shm, CPU devices: each call between ranks lasts at least as long as over a network. "
       "Each rank has such a link in both directions: 1Gbit,50us or 100MB,1ms. dp's replicas share "
       "a process and cross none. Runs are marked with it.",
       "none"},
      {"inject", 0, "FAULT", &Options::injections, anything(),
       "Plant a fault, for tests and demonstrations. slow:rank=R,phase=P,percent=X (or ms=T) slows "
       "a phase; without phase, each collective of the rank begins T ms late. kill:rank=R,step=S, "
       "and stop, throw alike. stall:rank=R,step=S,ms=T: the rank arrives T ms late at a "
       "collective; without ms it never arrives. Others: missing_bucket:bucket=B, sum, "
       "stale:rank=R,step=S, seed:rank=R (other start weights), epoch (each epoch has the first's "
       "order). R is a process; for stale, and slow with a phase, a device. Several faults are "
       "separated by ';'.",
       "none"},
  };
}

Definitions measuring_options() {
  return {
      {"warmup-steps", 0, "N", &Options::warmup_steps, between(0, kMostTimes),
       "Steps before the timed ones, at least: more follow until step times are steady. Training "
       "starts anew after them. 0: none."},
      {"warmup-max-steps", 0, "N", &Options::warmup_max_steps, between(0, kMostTimes),
       "End the warm-up after this many steps, steady or not; as many as --warmup-steps: a fixed "
       "number.",
       "10 times --warmup-steps"},
      {"repetitions", kFreeOnResume, "N", &Options::repetitions, between(1, kMostTimes),
       "Times that every run is made, in fresh processes."},
      {"order", kNotOfTune | kFreeOnResume, "", &Options::order,
       one_of({"interleaved", "sequential"}),
       "Order of repeated runs. interleaved: each round runs every setting once, in random order, "
       "so that slow changes of the machine hit all settings alike. sequential: all repetitions of "
       "a setting after each other."},
      {"until-ci", kNotOfTune | kFreeOnResume, "PERCENT%", &Options::until_ci, above_zero_to(100),
       "Repeat a run until its median step time is known to within this: the width of its 95 % "
       "confidence interval. A limit ends the repetitions, too.",
       "off"},
      {"max-repetitions", kNotOfTune | kFreeOnResume, "N", &Options::max_repetitions,
       between(1, kMostTimes),
       "With --until-ci: make at most N repetitions. A run that is still wider is marked noisy."},
      {"max-minutes", kNotOfTune | kFreeOnResume, "MINUTES", &Options::max_minutes, between(0, 1e6),
       "With --until-ci: start no further repetition after this many minutes. 0: no limit."},
      {"confirm-repetitions", kTuneAlone, "N", &Options::confirm_repetitions,
       between(report::kFewestForInterval, kMostTimes),
       "tune: fresh runs each of the best setting and of the default, after the screening."},
      {"least-gain", kTuneAlone, "PERCENT%", &Options::least_gain, between(0, 100),
       "tune: recommend a setting only when its steps are shorter by at least this."},
      {"memory-per-device", kFlagOnly | kPlannedByFit | kNotOfTune, "SIZE",
       &Options::memory_per_device, anything(),
       "Memory of each device, such as 16GiB or 80GB: the answer names the fastest run that fits. "
       "fit: in place of what this machine's devices have free.",
       "the device's own"},
      {"format", kFlagOnly | kFitAlone, "", &Options::format, one_of(report::record_formats()),
       "fit: how the batches are printed.", "table"},
      {"verify-steps", kPlannedByFit, "N", &Options::verify_steps, between(0, kMostTimes),
       "Steps compared with a reference on one device before the timing; 0: none."},
      {"observe", 0, "on|off", &Options::observe, anything(),
       "Record phases and buckets; off shows what recording costs."},
      {"timeout", kOfComm | kFreeOnResume, "SECONDS", &Options::timeout_s, between(0, 1e9),
       "Stop the run when a rank makes no progress for this many seconds. 0: never."},
  };
}

Definitions launch_options() {
  return {
      {"hosts", kNotOfTune, "HOSTS", &Options::hosts, anything(),
       "Hosts for the ranks, as a:2,n[1-4]:2, each with the number of devices that it is to have. "
       "The first has rank 0, and its name is one at which the others reach it. Servers of ps come "
       "beside the devices.",
       "this one"},
      {"hostfile", kNotOfTune, "FILE", &Options::host_file, anything(),
       "The same from a file with one host per line: HOST, HOST:N or HOST slots=N; # begins a "
       "comment. -: from standard input.",
       "none"},
      {"launcher", kNotOfTune | kNoVariable, "", &Options::launcher,
       one_of({"local", "ssh", "mpirun", "srun"}),
       "Who starts the ranks of every run. local: this program, here. ssh: this program, on "
       "--hosts by --remote-shell. mpirun (Open MPI), srun: that program, on --hosts or where it "
       "puts them.",
       "ssh with --hosts, else local"},
      // No file may give the next three: one that came from elsewhere would run its commands here.
      {"remote-shell", kNotOfTune | kNoKey, "COMMAND", &Options::remote_shell, anything(),
       "With --launcher=ssh: the command that runs a command line on a host, called as COMMAND "
       "HOST LINE. It may have arguments, quoted as in a shell.",
       "ssh"},
      {"remote-program", kNotOfTune | kNoKey, "PATH", &Options::remote_program, anything(),
       "ddpbench on the hosts. It must be the same version as here.", "the path that it has here"},
      {"launcher-args", kNotOfTune | kNoKey, "ARGUMENTS", &Options::launcher_arguments, anything(),
       "Further arguments for mpirun or srun, quoted as in a shell.", "none"},
      {"interface", kOfComm, "NAME|ADDRESS", &Options::interface, anything(),
       "The network interface of this host (eth0), or its IPv4 address, that ranks of several "
       "hosts use. Each rank may have its own.",
       "that of the way to MASTER_ADDR"},
      {"local-rank", kNotOfTune | kFlagOnly, "N", &Options::local_rank, between(0, kMostDevices),
       "What `python -m torch.distributed.launch` adds for those that it starts. Not used.",
       "none"},
  };
}

Definitions file_options() {
  return {
      {"json", kOfComm | kFreeOnResume, "PATH", &Options::json_path, anything(),
       "Where the report goes. -: to standard output; what else is printed then goes to stderr.",
       "ddpbench-<UTC time>.json"},
      {"resume", kNotOfTune | kFreeOnResume | kNoKey, "REPORT", &Options::resume_path, anything(),
       "Complete an interrupted report: runs that are ok in it are kept, the others are made. "
       "Configuration and machine must be the same; repetitions may differ. Written to --json, or "
       "back to REPORT. Not of other commands' reports.",
       "none"},
      {"force", kOfComm | kFreeOnResume | kOfFetch, "", &Options::force, anything(),
       "Overwrite existing reports, traces and weights; data fetch: download again."},
      {"trace", kFreeOnResume, "FILE", &Options::trace_path, anything(),
       "Write the first timed steps of every run as Chrome trace events: steps, phases, layers, "
       "buckets and waiting of every rank, for Perfetto or chrome://tracing.",
       "none"},
      {"trace-steps", kFreeOnResume, "N", &Options::trace_steps, between(1, kMostTracedSteps),
       "With --trace: timed steps of a run that are traced."},
      {"save-model", kNotOfTune, "FILE", &Options::save_model, anything(),
       "Write the trained weights (safetensors, PyTorch's names and shapes). Needs a command that "
       "makes one run.",
       "none"},
      {"load-model", 0, "FILE", &Options::load_model, anything(),
       "Start from these weights: a safetensors file, or the index of several.", "none"},
      {"checkpoint", kPerRun | kNotOfTune, "FILE", &Options::checkpoint, anything(),
       "Save what training goes on from (safetensors: weights, optimizer, statistics, position), "
       "beside the steps and at the end. The file before stays until the new one is whole. Each "
       "run needs a file of its own.",
       "none"},
      {"checkpoint-every", kNotOfTune, "epoch|N", &Options::checkpoint_every, anything(),
       "When: at the end of each epoch, or after every N steps (localsgd: at the end of that "
       "cycle).",
       "", "", OnlyWith{"checkpoint", {}}},
      {"resume-training", kNotOfTune, "FILE", &Options::resume_training, anything(),
       "Go on from a file of --checkpoint, with any strategy and number of devices of the same "
       "global batch; --epochs counts those before, too.",
       "none"},
      {"data-dir", kPlannedByFit | kFreeOnResume | kOfData, "DIR", &Options::data_dir, anything(),
       "Data sets lie in DIR/NAME/ or where torchvision puts them.", "the user's cache directory"},
  };
}

Definitions other_options() {
  return {
      {"dry-run", kFreeOnResume, "", &Options::dry_run, anything(),
       "Check everything, say what would run and how long, and stop. Each run is set up on its "
       "devices; one a batch size takes two steps. The exit code is what the runs would have. With "
       "-v: the configuration, too."},
      {"quiet", kOfComm | kFreeOnResume | kOfFetch, "", &Options::quiet, anything(),
       "Print the report's path or the error alone.", "", "", OnlyWith{}, "-q"},
      {"verbose", kFreeOnResume, "", &Options::verbose, anything(),
       "Print the table with all usual columns, and the parts of the step of each setting.", "", "",
       OnlyWith{}, "-v"},
      {"help", kPlannedByFit | kOfComm | kOfData | kFlagOnly, "", NoMember{}, anything(),
       "Print this text and stop.", "", "", OnlyWith{}, "-h"},
      {"version", kPlannedByFit | kOfComm | kOfData | kFlagOnly, "", NoMember{}, anything(),
       "Print the version and stop."},
  };
}

Definitions file_only_keys() {
  return {
      {"label", kKeyOnly | kPerRun, "TEXT", &Options::label, anything(),
       "Names a run in tables, charts and pages, where it can in place of its settings.", "none"},
      {"dataset.on_missing", kKeyOnly, "", &Options::on_missing, one_of({"synthesize", "error"}),
       "Without the data set's files: draw synthetic samples of the same shapes and counts (and "
       "say so), or stop."},
      {"dataset.mean", kKeyOnly, "X", &Options::dataset_mean,
       from(-std::numeric_limits<double>::infinity()),
       "Subtracted from samples in [0, 1]: one number, or a list with one per channel.",
       "the data set's own"},
      {"dataset.std", kKeyOnly, "X", &Options::dataset_std, positive(),
       "What samples are divided by: one number, or one per channel.", "the data set's own"},
      {"dataset.augment", kKeyOnly, "on|off", &Options::augment, anything(),
       "Crop every training image at random, out of its padding by 4 black pixels, and mirror half "
       "of them. Images of image-folder and voc2012: as networks.md says. Which way depends on the "
       "seed, the epoch and the sample, so all strategies and numbers of devices see the same "
       "pixels."},
      {"dataset.crop", kKeyOnly | kPlannedByFit, "N", &Options::crop, between(0, kMostCrop),
       "Height and width of the network's images, which those of image-folder, voc2012 and "
       "synthetic are cut to or drawn in. 0: as in the network's file."},
  };
}

// The commands of `ddpbench comm` alone. What its other options say of ranks holds for them.
Definitions comm_options() {
  Definitions rows = {
      {"op", 0, "NAME,...", &Options::operations,
       all_or_some_of({"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
                       "scatter", "gather", "send_recv", "barrier"}),
       "Collectives: all_reduce, reduce, broadcast, all_gather, reduce_scatter, scatter, gather, "
       "send_recv, barrier; all: all of them."},
      {"sizes", 0, "SIZES", &Options::sizes, anything(),
       "Bytes of the whole buffer, as nccl-tests counts them: 4K..128M doubles, 4K..128M*4 takes "
       "larger steps, 1K,1M is a list."},
      {"ranks", 0, "N|all,...", &Options::ranks, anything(),
       "Numbers of ranks; all: one per core, or one per GPU. Where mpirun, srun, torchrun or the "
       "variables of docs/launch.md started the processes: all of them, unless given.",
       "2", "", OnlyWith{}, "--gpus"},
      {"type", 0, "", &Options::type,
       one_of({"fp32", "fp64", "bf16", "fp16", "int32", "int64", "uint8"}),
       "Type of the elements."},
      {"redop", 0, "", &Options::reduction, one_of({"sum", "average", "max"}),
       "What is computed of the ranks' elements."},
      {"mode", 0, "", &Options::mode, one_of({"process", "thread"}),
       "What ranks are: processes, or threads of one process."},
      {"iterations", 0, "N", &Options::iterations, between(1, kMostCommIterations),
       "Timed iterations of a row."},
      {"warmup", 0, "N", &Options::warmup, between(0, kMostCommIterations),
       "Iterations before them."},
  };
  for (OptionDefinition& row : rows) row.traits = kCommAlone | kNoKey;
  return rows;
}

}  // namespace

const Definitions& option_table() {
  static const std::vector<OptionDefinition> table = [] {
    Definitions all;
    for (Definitions part :
         {in_group("What to compare", comparison_options()),
          in_group("Training", training_options()), in_group("Measuring", measuring_options()),
          in_group("Files", file_options()), in_group("Other", other_options()),
          in_group("Experts: strategies and devices", strategy_options()),
          in_group("Experts: optimizer and learning rate", expert_training_options()),
          in_group("Experts: emulation and faults", emulation_options()),
          in_group(kHostsGroup, launch_options()), in_group("Collectives (comm)", comm_options()),
          in_group("Keys that only a configuration file has", file_only_keys())})
      std::ranges::move(part, std::back_inserter(all));
    return all;
  }();
  return table;
}

}  // namespace ddpbench::bench
