// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Report: the result of a ddpbench command, as plain data. schema/report-1.schema.json describes
// its JSON form. reports/ knows no device; bench/ fills everything in.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ddpbench::report {

inline constexpr int kSchemaVersion = 1;

// A figure that may be missing.
using Figure = Known<double>;
using Phases = std::map<std::string, Figure>;  // of a step: "forward_s", ...

// Bytes that all processes together use on a GPU after each stage of a rank's set-up:
// "with_context", "with_libraries" (handles of cuDNN and cuBLAS), "with_communicators", "at_end".
using DriverBytes = std::map<std::string, std::uint64_t>;

struct GpuInfo {
  std::string name, driver;
  std::uint64_t memory_bytes = 0;
  // Empty or 0 where the driver did not tell. Reports of peers lack all of these.
  std::string uuid, pci_bus_id;
  std::string compute_capability;  // "9.0"
  int multiprocessors = 0;
  std::uint64_t l2_bytes = 0;
  Known<int> numa_node;
  Known<int> pcie_generation, pcie_width;
};

struct SampleRange {
  double median = 0, min = 0, max = 0;
};

// What one GPU did while a run trained, sampled a few times a second.
struct GpuTelemetry {
  std::int64_t samples = 0;
  double interval_s = 0;  // between two samples
  // utilization_ratio: of the driver's own period (1/6 s to 1 s), how long any kernel ran.
  Known<SampleRange> utilization_ratio, sm_clock_mhz, memory_clock_mhz, power_w,
      temperature_celsius;
  // The share of the samples with each reason for which clocks were held down or the GPU was idle.
  Known<std::map<std::string, double>> clock_event_ratios;
};

// diverged (of runs): it was run and timed, but the weights have become useless. Training ends with
// the epoch in which the loss ceases to be finite.
enum class Status : std::uint8_t { ok, diverged, failed, skipped, interrupted };

struct ErrorInfo {
  std::string kind;
  std::optional<int> rank;
  std::string host;
  std::optional<int> signal;
  // The diverged_step of a run that diverged. Else how many steps of verification, warm-up and
  // training the rank had begun, or another one where nothing was heard of it.
  std::optional<std::uint64_t> step;
  std::string phase;
  std::string operation;
  std::string message;
  std::optional<int> bucket{};  // of the operation's call, as in CallInfo
};

// Statistics of one sample of times, seconds.
struct StepStatistics {
  double median = 0;
  Figure iqr;  // missing for one value
  double p5 = 0, p95 = 0, p99 = 0, min = 0, max = 0;
};

struct StepSection {
  int warmup = 0;
  std::optional<bool> warmup_steady;  // whether step times settled; not set: not judged
  std::string warmup_reason;          // why it was not judged
  std::int64_t count = 0;
  std::optional<StepStatistics> time_s;  // absent when count is 0
  std::vector<double> samples_s;         // the slowest rank's time of each timed step
};

struct EpochRow {
  int epoch = 0;
  double time_s = 0;
  std::int64_t samples = 0;  // processed by all ranks, padding included
  double samples_per_s = 0;
  double train_loss = 0;  // NaN or infinite when training diverged: null in JSON, with the reason
  double train_accuracy = 0;  // NaN: not recorded
  Figure test_accuracy;
  std::optional<double> test_miou;  // of networks that predict maps (mean_iou)
};

// What the weights made of the test set in a run without training (--epochs=0).
struct Evaluation {
  std::int64_t samples = 0;
  Figure loss, accuracy;
  std::optional<double> miou;
};

// A point of training's course, with the members of EpochRow. Loss and accuracy are means over the
// labels of all ranks since the point before; steps, time and samples are those until then.
struct ProgressPoint {
  int epoch = 0;
  std::int64_t step = 0;
  double train_s = 0;
  std::int64_t samples = 0;
  double train_loss = 0, train_accuracy = 0;
};

// What --until-accuracy or --until-miou asked for, and the training time up to the end of the first
// epoch with it.
struct AccuracyTarget {
  double target = 0;  // 1 is all
  Figure train_s;
  std::string metric = {};  // of the test set: "miou"; empty: accuracy

  bool is_of_miou() const { return metric == "miou"; }
};

// One gradient bucket (or pushed shard) of one rank. Times are medians over the timed steps, in
// seconds since the step began.
struct BucketRow {
  int bucket = 0;
  std::uint64_t bytes = 0;
  double ready_s = 0, start_s = 0, arrived_s = 0, end_s = 0;
  std::string arrived_reason = {};  // why arrived_s is not known; it is start_s then
};

struct DeviceRow {
  int rank = 0;  // index of the replica (also of dp's threads); servers follow the workers
  std::string role = "worker";  // worker | server
  std::string host, device;     // "cpu:0"
  std::vector<int> cores;       // OS processors it is pinned to
  int process_rank = 0;
  Figure step_time_median_s;
  std::uint64_t peak_bytes = 0;
  std::string peak_reason;  // why the peak is not known; empty: it is known
  std::map<std::string, std::uint64_t> by_category_bytes;  // peak by category
  Figure process_peak_rss_bytes;
  // Medians over the observed steps of this rank. Run::phases has those of the slowest rank.
  // Servers have none.
  Phases phases;
  std::vector<BucketRow> buckets;
  Known<GpuTelemetry> gpu_telemetry;  // of this replica's own GPU
  Known<DriverBytes> driver_bytes;    // of the same GPU

  Figure peak_memory() const;
};

struct Verification {
  // The reason of `not_applicable` where a strategy is approximate.
  static constexpr std::string_view kByDesign = "the strategy computes something else by design";
  bool is_approximate() const { return divergence || reason == kByDesign; }

  // passed | failed | diverged | off | reference | not_applicable. diverged: the steps before
  // training diverged were passed.
  std::string status = "off";
  std::string reason;  // with failed, diverged and not_applicable
  int steps = 0;       // that were compared, or were to be when the run ended before that
  // The following describe the comparison (one tensor after one step) with the largest error in
  // units of its tolerance. The error is |w - w_ref| / size of the reference's update.
  Figure max_relative_error;
  std::string worst_tensor;
  std::optional<int> worst_step;  // from 1
  Figure tolerance;
  std::optional<bool> replicas_bit_equal;
  // How far an approximate strategy went: |w - w_ref| / |w_ref - w_0| over all weights after the
  // steps.
  std::optional<double> divergence;
};

struct Scaling {
  std::string baseline;  // "single"
  double speedup = 0;
  double efficiency = 0;
};

// Why the run is not faster (reports/why/why.h).
struct Why {
  std::string cause;                    // a word of Cause
  std::string sentence;                 // it names the largest loss and its time
  std::string advice;                   // empty: none
  std::map<std::string, Figure> parts;  // "compute_s", ...; they add up to the step's median time
};

// A stage that the run did not reach is missing.
struct Times {
  Figure startup_s, verify_s, warmup_s, train_s, evaluate_s, load_s, save_s, total_s;
};

// What the machine did during a run (reports/metrics/conditions.h).
struct Conditions {
  Figure cpu_frequency_begin_mhz, cpu_frequency_end_mhz;  // mean over processors
  // Shares of the machine's processor time that other programs and virtual machines took, and of
  // the time in which a CPU quota stopped the run.
  Figure other_load_ratio, stolen_ratio, quota_throttled_ratio;
  Figure major_page_faults, involuntary_context_switches;  // of the run's processes
  Figure swapped_in_pages, thermal_throttle_count;         // of the machine
  Figure step_drift_ratio;         // last third of the steps / first third - 1
  std::vector<std::string> notes;  // on what was out of the ordinary
};

// What devices and servers send each other in one step (docs/metrics.md).
struct StepTraffic {
  std::uint64_t messages = 0, bytes = 0;  // of all together, each counted once
  // The most that one participant sends, or receives if that is more.
  std::uint64_t busiest_messages = 0, busiest_bytes = 0;
};

// What the first server of a run did whose servers serve their workers one by one.
struct PushSection {
  std::int64_t updates = 0;
  double updates_per_s = 0;  // while the workers trained
  std::int64_t dropped = 0;  // pushes of late workers
  // The updates by others that the weights lacked with which a push was computed.
  double staleness_p50 = 0, staleness_p95 = 0, staleness_max = 0;
  std::map<std::string, std::uint64_t> pushes_by_staleness;
};

// How rank 0 scaled the loss of a run in fp16 (docs/metrics.md).
struct LossScaling {
  double scale = 0;                  // at the end of training
  std::int64_t skipped_updates = 0;  // of timed steps, whose gradients were not finite
};

// The clock of one host of a run on several (docs/metrics.md).
struct HostClock {
  std::string host;
  // Its time minus that of rank 0's host when the run began, and how far times of this host may be
  // off once they are corrected by it.
  Figure offset_s, bound_s;
  Figure drift_s;  // by how much the offset had grown when the run ended
};

// One call of a communicator on one rank.
struct CallInfo {
  std::string operation;     // "all_reduce", "send", ...
  std::uint64_t number = 0;  // from 1: among the rank's collectives, or its messages with `peer`
  std::optional<int> bucket, peer;
  std::uint64_t bytes = 0;
};

// Where one rank's communication stood when a run failed.
struct RankCalls {
  int rank = 0;
  std::string host;  // empty: not told
  std::optional<CallInfo> completed, pending;
};

// A file of --checkpoint that was written whole.
struct CheckpointRow {
  std::int64_t step = 0;  // after so many steps, those before a resumed run included
  std::uint64_t bytes = 0;
  double held_s = 0;   // that training waited: for the copy to the host, and for the file before
  double write_s = 0;  // beside the steps, until the disk had it
};

// Where a run went on that did not begin at step 0.
struct ResumedFrom {
  std::string file;
  std::int64_t step = 0;  // in all
  int epoch = 0;
  std::int64_t step_of_epoch = 0;
};

struct Run {
  Status status = Status::ok;
  std::optional<ErrorInfo> error;  // with failed and diverged
  std::string reason;              // with skipped
  std::string strategy;
  std::string label;       // the user's name of the run; empty: none
  bool predicted = false;  // by `ddpbench predict`: nothing ran, it has a step and a rate alone
  int world_size = 1, servers = 0, repetition = 0;
  std::optional<int> sequence;  // place in the order in which the runs were made, from 0
  std::string started_at;       // "2026-01-31T12:00:00Z"; empty: not recorded
  std::string device, device_model;
  int threads_per_device = 1;
  std::string backend, precision;
  std::string model;       // the network's name
  std::string model_hash;  // of its content, 16 hexadecimal digits; empty: not recorded
  std::int64_t parameters = 0;
  // Operations of forward and backward in convolutions and products; not set: not recorded.
  std::optional<double> flops_per_sample;
  std::string optimizer_name = "sgd";
  std::map<std::string, double> optimizer;  // its numbers: lr, momentum, weight_decay, ...
  // Its other values, only where they are not the usual ones: "nesterov".
  std::map<std::string, std::string> optimizer_choices;
  std::int64_t per_device_batch_size = 0, global_batch_size = 0;
  int accumulation_steps = 1;
  std::string scaling_mode;  // weak | strong
  bool oversubscribed = false;
  // The strategy's own options as on the command line; in JSON booleans and numbers where they are.
  std::map<std::string, std::string> strategy_options;
  std::string dataset_name, dataset_source;
  std::int64_t train_samples = 0, test_samples = 0;
  std::string dataset_note;  // what to know of the data beside its name, in words; empty: nothing
  std::optional<bool> augment;  // training images were cropped and flipped; not set: not recorded
  std::string injected;         // --inject of this run; empty: none
  Times time;
  std::vector<EpochRow> epochs;
  std::optional<Evaluation> evaluation;  // not set: the run trained, or failed
  std::vector<ProgressPoint> progress;
  std::string progress_reason;  // why there is none; empty: there is, or it was not recorded
  // The first timed step, from 1 over all epochs, whose loss is not finite. Neither value nor
  // reason: training did not diverge, or it was not recorded.
  Known<std::int64_t> diverged_step;
  // A weight tensor that was not finite when training ended; empty: all were, or not recorded.
  std::string diverged_tensor;
  std::optional<AccuracyTarget> until_accuracy;  // not set: the run had no such target
  StepSection step;
  Phases phases;
  std::vector<DeviceRow> devices;
  Known<StepTraffic> traffic;  // neither a value nor a reason: not recorded
  std::optional<PushSection> pushes;
  std::optional<LossScaling> loss_scaling;
  std::vector<CheckpointRow> checkpoints;
  std::optional<ResumedFrom> resumed;
  Verification verification;
  std::optional<Scaling> scaling;
  std::string scaling_reason;
  Figure samples_per_s, samples_per_s_per_device;
  Figure peak_flops_per_s_per_device;    // as measured before the run; no reason: not recorded
  std::optional<Why> why;                // of runs on several devices
  std::optional<Conditions> conditions;  // not set: not recorded
  std::vector<HostClock> clocks;         // of runs on several hosts
  std::vector<RankCalls> calls;          // of runs that failed, where the backend tells it
};

// What `ddpbench comm` measured of one collective at one size.
struct CollectiveRow {
  std::string operation;   // "all_reduce", ...; "send_recv": to the next rank and from the previous
  std::string backend;     // its name: "shm", "nccl", ...
  std::string all_reduce;  // ring | direct: algorithm of all_reduce; empty: not told
  std::string emulated_link;   // "1Gbit,50us": what --emulate-link made of the calls; empty: none
  std::string device = "cpu";  // cpu | cuda: of all ranks
  std::string device_model;    // empty: not told
  std::vector<int> gpus;       // [rank] index in environment.gpus; empty on CPU devices
  std::string mode;            // process | thread: what a rank is
  int ranks = 0;
  std::uint64_t bytes = 0;  // of the whole buffer, as nccl-tests counts it
  std::uint64_t count = 0;  // elements of the buffer, or of a rank's part where each has one
  std::string data_type;    // "fp32", ...
  std::string reduction;    // sum | average | max; empty: the operation does not reduce
  bool in_place = false;
  bool oversubscribed = false;
  int warmup = 0;
  std::int64_t iterations = 0;       // that were timed and finished
  std::int64_t late_iterations = 0;  // of these, the ones that waited for the host to queue them
  std::optional<StepStatistics> time_s;  // of the slowest rank's time, over the iterations
  Figure algbw_gb_per_s, busbw_gb_per_s;
  std::optional<std::uint64_t> wrong;  // elements of all ranks that are not exactly right
  std::string wrong_reason;            // why `wrong` is not set
  // The highest bus bandwidth that memory allows (metrics.h), busbw divided by it, and which memory
  // bandwidth sets it: memory_copy, memory_reduce, or empty if none was measured.
  Figure bound_busbw_gb_per_s, share_of_bound;
  std::string bound;
};

// What the ranks' cores reach, each in memory of its own, or the copies of a GPU: bytes read and
// bytes written.
struct BandwidthRow {
  std::uint64_t working_set_bytes = 0;  // of a core, or of the GPU
  std::optional<int> cores;             // that ran at once; not set for a GPU
  std::optional<int> gpu;               // index in environment.gpus
  double copy_gb_per_s = 0;             // of all cores together
  Figure reduce_gb_per_s;               // likewise; missing on a GPU
};

// A cell: runs that are repetitions of each other, and the confidence interval of the median of
// their median step times (docs/metrics.md).
struct CellSummary {
  std::vector<std::size_t> runs;  // indices into Report::runs
  Figure step_median_s, ci_low_s, ci_high_s;
  Figure ci_width_ratio;                     // (high - low) / median
  std::optional<double> wanted_width_ratio;  // of --until-ci
  bool noisy = false;                        // the interval is wider than wanted
};

struct TuneSetting {
  double first_bucket_mb = 0, bucket_cap_mb = 0;  // MiB
  bool overlap = true;
  int buckets = 0;         // how many buckets these sizes make
  Figure screening_ratio;  // median over rounds of: its step time / that of the default
};

// What `ddpbench tune` found (reports/metrics/ranking.h).
struct Tune {
  std::vector<TuneSetting> settings;  // the first is the default
  int screening_rounds = 0;
  std::optional<std::size_t> candidate;  // index of the best in the screening; not set: none
  int confirmation_pairs = 0;            // of fresh runs of the default and the candidate
  // 1 - the median ratio of the candidate's step time to the default's, with its 95 % interval.
  Figure gain_ratio, gain_low_ratio, gain_high_ratio;
  double least_gain_ratio = 0;  // the least gain that is recommended
  bool recommended = false;     // whether the candidate is recommended
  std::string conclusion;
};

struct Generator {
  std::string version;
  std::optional<std::string> git_commit;
  std::optional<bool> git_dirty;
  std::string git_reason;         // why commit or dirty flag is missing
  std::string name = "ddpbench";  // of the program that measured; peers have other names
  bool is_import() const { return name == "ddpbench-import"; }
};

struct CpuInfo {
  std::string model;
  int cores = 0, processors = 0;
  std::uint64_t l2_bytes = 0, l3_bytes = 0, memory_bytes = 0;
  std::vector<std::string> features;
};

struct Environment {
  std::vector<std::string> hosts;
  std::string launcher;  // of a joined world's ranks; empty: none started ddpbench
  std::string operating_system, kernel;
  std::string tcp_congestion_control;  // "bbr", "h0: bbr; h1: reno"
  CpuInfo cpu;
  std::vector<GpuInfo> gpus;
  std::map<std::string, std::string> libraries;  // name -> version
  std::map<std::string, std::string> variables;  // allow-listed only
};

struct Report {
  Generator generator;
  Status status = Status::ok;
  std::optional<ErrorInfo> error;       // of the first failure
  std::string started_at, finished_at;  // "2026-01-31T12:00:00Z"
  std::vector<std::string> argv;
  Environment environment;
  std::string config_json;  // fully resolved configuration, as JSON text
  std::vector<Run> runs;
  std::vector<CollectiveRow> collectives;      // of `ddpbench comm`, which makes no runs
  std::vector<BandwidthRow> memory_bandwidth;  // likewise
  std::vector<CellSummary> cells;              // when something was repeated
  std::vector<std::string> answer;  // which setting, how sure, why not faster (why/why.h)
  std::optional<Tune> tune;         // of `ddpbench tune`
};

// In the order of Status.
inline constexpr std::array<std::string_view, 5> kStatusWords = {"ok", "diverged", "failed",
                                                                 "skipped", "interrupted"};
std::string_view to_string(Status status);

// The phase of this name; missing, without a reason, where it was not recorded.
Figure phase_of(const Phases& phases, const std::string& name);
// The same in seconds, 0 where it is missing.
double seconds_of(const Phases& phases, const std::string& name);
// The run's value of an option of its strategy, or `otherwise` where it has none.
std::string option_of(const Run& run, std::string_view name, std::string_view otherwise = "");

// Whether the run did all that it was to do; how well it trained is another matter.
bool is_complete(const Run& run);
// Gives a run that was made and timed the status `diverged`, with an error that says why.
void mark_diverged(Run& run, const std::string& why);

// Why a figure is missing where the report records no reason for it.
inline constexpr const char* kPredictedReason = "predicted, not measured";
inline constexpr const char* kDivergedReason = "training diverged: the loss is not finite";
std::string missing_reason(const Run& run);
// The figure's own reason; where it has none, the run's.
std::string missing_reason(const Figure& figure, const Run& run);

std::string hardware_words(const Environment& environment);  // "Imaginary 9000, 2 cores, GPU"
std::string machine_words(const Report& report);             // "node (Imaginary 9000, 2 cores)"
// "1a2b3c4d5e6f with changes"; empty where it is not known.
std::string commit_words(const Generator& generator);
std::string build_words(const Generator& generator);  // "ddpbench 0.1.0 (1a2b3c4d5e6f)"

}  // namespace ddpbench::report
