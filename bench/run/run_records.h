// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a run recorded, on one clock. HostClocks has what ranks of several hosts
// measured of theirs (read_clock), and what follows for the times that they recorded. Below: the
// times, phases, buckets, epochs and loss of a report that are made from the records
// (step_figures.cpp; docs/metrics.md has the formulas).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "bench/rank/rank_result.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// What the ranks of a run left: [rank]. Servers take no steps: they have no row in `steps` and
// `buckets`, and are the last ranks.
struct RankRecords {
  std::vector<RankResult> results;
  std::vector<std::vector<launch::StepRecord>> steps;
  std::vector<std::vector<launch::BucketRecord>> buckets;
  std::vector<std::vector<launch::TraceRecord>> trace;
};

class HostClocks {
 public:
  HostClocks() = default;  // one host
  explicit HostClocks(const RankRecords& records);

  // Puts all times on the clock of rank 0's host. A host that has measured nothing is aligned at
  // its begin.
  void correct(RankRecords& records) const;

  // How far the difference of two corrected times of different hosts may be off. 0: all ranks are
  // on one host. Infinite: a host has measured nothing, or a rank's host is unknown.
  double bound_s() const;
  // This is rank 0's host, or that of the lowest rank whose host is known.
  const std::string& first_host() const;
  std::vector<report::HostClock> rows() const;  // none on one host

 private:
  struct Clock {
    std::string host;
    std::vector<ClockReading> readings;  // in order; of the first host none are needed
    double begin_s = 0, last_s = 0;      // of the records, on this clock; 0: there are none
  };
  bool are_several() const { return clocks_.size() > 1; }
  double bound_of(const Clock& clock) const;
  double offset_at(const Clock& clock, double time_s) const;

  std::vector<Clock> clocks_;
  std::vector<int> clock_of_rank_;  // index in clocks_; -1: unknown
};

// Finds when all peers had entered a collective, for backends that do not report it (NCCL, Gloo,
// MPI): it begins when the last rank has entered it. So this sets arrived_s of such a bucket to the
// latest start_s of that bucket and step over all ranks, and splits waiting from communication
// again in observed steps. If not all ranks recorded the bucket, or if their clocks differ,
// arrived_s stays unknown and the step's waits_untold is set. `clock_bound_s`:
// HostClocks::bound_s() of corrected records; infinite means that clocks differ. `collectives`: all
// ranks take part in each bucket, as in ddp but not in ps. The first `workers` ranks take steps.
// Returns the error bound of the waiting times: `clock_bound_s`, or 0 if the backend reported them.
double fill_arrivals(RankRecords& records, std::size_t workers, double clock_bound_s,
                     bool collectives);

// Why waiting is not known where waits_untold is set.
inline constexpr const char* kUntoldWaiting =
    "the backend does not report when the peers had arrived, and the records of the ranks do not "
    "show it; comm_s includes waiting";

// The records of a run, with its clocks corrected and arrivals filled in.
struct RunRecords : RankRecords {
  HostClocks clocks;
  double wait_bound_s = 0;  // how far waiting times may be off: what fill_arrivals returned
};
RunRecords read_run_records(const TrainingJob& job, const launch::RankChannels& channels);

// Medians over the observed steps of the maximum over `ranks`: "forward_s", ..., "comm_s",
// "comm_exposed_s", "comm_wait_s", "overlap_ratio". Phases of single strategies are left out where
// they took no time. Without observed steps all are missing, with the reason; likewise times of
// communication below `clock_bound_s`, how far they may be off (fill_arrivals).
std::map<std::string, report::Figure> phase_figures(
    std::span<const std::span<const launch::StepRecord>> ranks, double clock_bound_s = 0);

// The same for one further replica of a process (dp): its times in the observed steps. What the
// process's first replica alone does is missing, with the reason. `replica`: its index among the
// process's.
std::map<std::string, report::Figure> replica_figures(
    std::span<const launch::ReplicaRecord> records, std::size_t replica);

// Each `cycle` consecutive steps of an epoch as one that lasts their mean, which begins with the
// first; one that is not whole is left out, and so are skipped steps. So figures have the steps
// that communicate in them.
std::vector<launch::StepRecord> whole_cycles(std::span<const launch::StepRecord> steps, int cycle);

// The seconds of each step.
std::vector<double> step_times(std::span<const launch::StepRecord> steps);

// The seconds between updates, where a step is done when the first of `ranks` ends it; from the
// earliest begin to the first update of an epoch. `ranks` lack the steps that they skipped.
std::vector<double> update_intervals(std::span<const std::span<const launch::StepRecord>> ranks);

// One row per bucket: medians over the timed steps of one rank, in seconds from the step's begin.
// Buckets of steps that were not recorded are left out. `clock_bound_s` as above.
std::vector<report::BucketRow> bucket_rows(std::span<const launch::BucketRecord> buckets,
                                           std::span<const launch::StepRecord> steps,
                                           double clock_bound_s = 0);

// A row for each epoch that all `ranks` finished: sums over ranks, and the time from the first
// begin to the last end. Loss and accuracies are means over the labels that count; a training epoch
// has some (data::LabelCounts).
std::vector<report::EpochRow> epoch_rows(const std::vector<const RankResult*>& ranks);

// What --epochs=0 found; nothing where `ranks` trained, or one of them did not get so far.
std::optional<report::Evaluation> evaluation_alone(const std::vector<const RankResult*>& ranks);

// What a point needs to know of one rank.
struct RankCourse {
  std::span<const LossPoint> points;
  std::span<const launch::StepRecord> steps;  // of all its timed steps, in their order
};

// A point for each step after which all `ranks` have one. `run`: epochs that ended, and saves;
// that ended; `batch`: samples that all ranks process in a step.
std::vector<report::ProgressPoint> progress_points(const std::vector<RankCourse>& ranks,
                                                   const report::Run& run, std::int64_t batch);

// Traces (run_trace.cpp). All runs of a command share one file. Each rank of each run is a process
// of it. Every run begins at time 0, so that runs lie below each other. No time is below 0: viewers
// drop those.

// Adds the traced steps that the run's ranks finished, also of a run that ended early, under the
// job's title, which names what the runs of a command differ in.
void add_run(report::Trace& trace, const TrainingJob& job, const launch::RankChannels& channels);

// Makes the report's Run of what the ranks left in their channels (run_collector.cpp). Works for
// failed and interrupted runs, too: reports what is there, with a reason for the rest.
report::Run collect_run(const TrainingJob& job, const launch::RankChannels& channels,
                        const launch::SuperviseResult& result);

// What the report says about a failure.
report::ErrorInfo failure_info(const launch::RunFailure& failure);

// run_verdict.cpp: whether the run computed what it should. `results`: of all ranks; those of a run
// that failed may lack a verification.
report::Verification summarize_verification(const TrainingJob& job,
                                            std::span<const RankResult> results);

// Sets `run.diverged_step`, `run.diverged_tensor`, and the status of a run that did all it was to
// do, or ended with a loss that is not finite, since its settings do not train. `run` has its
// epochs and its verification.
void note_divergence(const TrainingJob& job, std::span<const RankResult> ranks, report::Run& run);

// Whether the run diverged to weights or losses that are not finite, so that its weights were not
// saved. Those of a loss that is only far too large are.
bool has_useless_weights(const report::Run& run);

}  // namespace ddpbench::bench
