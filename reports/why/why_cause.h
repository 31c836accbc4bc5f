// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Splits a step into parts, as numbers, finds the cause, in one word, why a run is not faster, and
// makes the sentences about it. All but Cause is private to reports/.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/data/report.h"
#include "reports/metrics/scaling.h"

namespace ddpbench::report {

enum class Cause : std::uint8_t {
  scales,                 // no large loss
  oversubscription,       // more compute threads than cores
  busy_machine,           // other programs or virtual machines took the cores: nothing else is told
  slow_rank,              // the others wait for the same rank or ranks in most steps
  imbalance,              // ranks wait for each other, but not always for the same one
  starved_input,          // the devices wait for the loader
  tiny_network,           // latency and launch overhead dominate: too little work, too few bytes
  slow_link,              // communication takes longer than the backward that could hide it
  exposed_communication,  // communication could be hidden but runs after backward
  primary_device,         // dp: transfers and loss through device 0, one after the other
  sync_batch_norm,        // layers wait for the statistics of the other devices
  servers,                // ps: the workers' gradients go through too few servers
  slowed_by_overlap,      // compute is slower while communication runs
  slowed_compute,         // compute is slower than on one device, not because of communication
  host_overhead,          // time between the phases
  interpreter_lock,       // --emulate-gil: replicas of a process wait for its lock
  small_losses,           // several losses, each too small for advice
  unknown                 // not enough was recorded; the sentence says what is missing
};
std::string_view to_string(Cause cause);    // "scales", "slow_rank", ...
std::string_view cause_title(Cause cause);  // "nothing large to gain"

// Losses below this share of the step are negligible: all of them together, one alone (no advice),
// and waiting (no rank is blamed).
inline constexpr double kNegligibleShare = 0.05;

// Times of one rank (or of `single`) in a step: medians, in seconds.
struct RankTimes {
  double step_s = 0;
  double input_s = 0, forward_s = 0, loss_s = 0, backward_s = 0, optimizer_s = 0;
  double comm_s = 0, comm_exposed_s = 0;
  double wait_exposed_s = 0;  // for peers or servers, with neither compute nor a transfer
  double sync_s = 0;          // statistics of batch norm exchanged, with waiting; beside comm_s
  double interpreter_s = 0;   // waiting for the emulated lock; beside the phases
  // What may be waiting for slower ranks: an exchange of statistics is little else.
  double blocked_s() const { return wait_exposed_s + sync_s; }
  double compute_s() const { return forward_s + loss_s + backward_s + optimizer_s; }
  double backward_end_s() const {
    return input_s + forward_s + loss_s + backward_s + interpreter_s;
  }
};

// The ranks that the others wait for beyond chance, and the phase that is longer there.
struct Stragglers {
  std::vector<const DeviceRow*> ranks;
  std::string phase;    // "backward", "input wait", ...; empty: no phase is longer
  double longer_s = 0;  // by how much the phase is longer
};

// The parts of a step, in seconds. They add up to step_s.
struct StepParts {
  double step_s = 0;
  double compute_s = 0, compute_slowed_s = 0, overlap_slowed_s = 0;
  double comm_exposed_s = 0, sync_batch_norm_s = 0, input_wait_s = 0, straggler_wait_s = 0,
         server_wait_s = 0, interpreter_wait_s = 0, host_s = 0;
};

// The parts in the order of the step, under the names that reports and people know them by.
struct PartName {
  double StepParts::*part;
  const char* key;
  const char* title;
  bool of_baseline = false;  // not known without a baseline
  bool is_rare = false;      // only runs that have it name it
};
inline constexpr std::array kPartNames = {
    PartName{&StepParts::input_wait_s, "input_wait_s", "input wait"},
    PartName{&StepParts::compute_s, "compute_s", "compute"},
    PartName{&StepParts::compute_slowed_s, "compute_slowed_s", "slower side by side", true},
    PartName{&StepParts::overlap_slowed_s, "overlap_slowed_s", "slowed by overlap", true},
    PartName{&StepParts::comm_exposed_s, "comm_exposed_s", "communication not hidden"},
    PartName{&StepParts::sync_batch_norm_s, "sync_batch_norm_s",
             "exchanging statistics of batch norm", false, true},
    PartName{&StepParts::interpreter_wait_s, "interpreter_wait_s",
             "waiting for the emulated interpreter lock", false, true},
    PartName{&StepParts::straggler_wait_s, "straggler_wait_s", "waiting for a slower device"},
    PartName{&StepParts::server_wait_s, "server_wait_s", "waiting for servers"},
    PartName{&StepParts::host_s, "host_s", "between phases"}};

struct Decomposition {
  std::string missing;                // why there are no parts; empty when there are
  std::string no_baseline;            // why there is no baseline; empty when there is one
  RankTimes rank;                     // the rank that is split: the one that waits longest
  const DeviceRow* device = nullptr;  // its row; null if only phases of the whole run are known
  std::optional<RankTimes> ideal;     // single's, divided by the world size in strong scaling
  double least_sync_s = 0;            // RankTimes::sync_s of the device that has the least
  StepParts parts;
  StepParts lost;  // parts - ideal; 0 without an ideal
  Stragglers stragglers;
  // dp: the transfers through the primary ("scatter", seconds); they add up to comm_exposed_s.
  std::vector<std::pair<std::string, double>> transfers;
  double spread = 0;  // IQR / median of the step times; the larger of the run's and single's
};

// The `single` runs that the runs of a report are explained against. The medians over their
// repetitions are made once, as each of a thousand runs asks for them.
class Lender {
 public:
  explicit Lender(const Report& report) : baselines_(report) {}
  Lender(const Lender&) = delete;  // `times_` knows the places of the lists in `baselines_`
  Lender& operator=(const Lender&) = delete;

  // Sets ideal and spread, or no_baseline.
  void lend(const Run& run, Decomposition& result) const;

 private:
  struct Times {
    RankTimes median;
    double spread = 0;
    bool observed = false;
  };
  static Times times_of(std::vector<const Run*> singles);

  Baselines baselines_;
  mutable std::map<const std::vector<const Run*>*, Times> times_;
};

Decomposition decompose(const Lender& lender, const Run& run);

// The values by which parts are ranked: the losses against `single`, or without a baseline all
// parts but compute.
StepParts ranked_losses(const Decomposition& split);

// The loss by one cause, summed over its parts of the step.
struct Loss {
  double seconds = 0;
  Cause cause = Cause::unknown;
};
Loss largest_loss(const Run& run, const Decomposition& split);

Cause find_cause(const Run& run, const Decomposition& split);

// "4 threads of 2 devices share 2 cores", of an oversubscribed run.
std::string shared_words(const Report& report, const Run& run);

// The bytes of all gradients of a step; where a hook encodes them, of what a rank gives.
double gradient_bytes(const Run& run);
bool has_hook(const Run& run);
// The steps after each of which replicas average weights; 0: they exchange gradients.
int cycle_of(const Run& run);
// The bucket of ddp that keeps the rank longest after the end of its backward, and for how long.
struct LateBucket {
  const BucketRow* row = nullptr;
  double exposed_s = 0;
};
LateBucket latest_bucket(const Decomposition& split);

// What the sentences about a run are made from.
struct Case {
  const Report& report;
  const Run& run;
  const Decomposition& split;
};
std::string cause_sentence(Cause cause, const Case& c);
std::string cause_advice(Cause cause, const Case& c);

}  // namespace ddpbench::report
