// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// This predicts how long a training step takes on numbers of devices that nobody measured.
// docs/prediction.md has the formulas.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// ---- the model, of plain numbers (step_model.cpp) ----

inline constexpr const char* kAllReduce = "all_reduce";

// What moves between the devices in a step: a bucket, or a shard.
struct Transfer {
  std::string
      collective;    // "all_reduce", "reduce_scatter", "all_gather"; "push": to servers, or back
  double bytes = 0;  // of the whole buffer, as nccl-tests counts it
  bool of_part = false;  // `bytes` are of one rank's part: the whole grows with the ranks
  bool tree = false;     // reduced to one rank by a tree, and then scattered, as Open MPI does
  int servers = 0;       // of "push"
  double ready_s = 0;    // its gradients, since the step had its inputs
  double seconds = 0;    // that it was measured to take, waiting for the slowest device included
};
// The bytes that the busiest link carries in one direction (docs/algorithms.md).
double link_bytes(const Transfer& transfer, int ranks);
// The messages that it takes one after the other, by a ring or directly.
int link_steps(const Transfer& transfer, int ranks, bool direct);

// What transfers cost on some network.
class CommCost {
 public:
  // Rings over links with that latency (one way) and rate.
  CommCost(double latency_s, double bytes_per_s)
      : latency_s_(latency_s), byte_s_(1 / bytes_per_s) {}
  // As `ddpbench comm` measured: linear between two sizes, those of the most ranks that are no more
  // than asked for. Collectives that it did not measure cost what all-reduces tell. Throws
  // ConfigError without all-reduces between several ranks. `name`: of the report, for messages.
  CommCost(std::span<const CollectiveRow> rows, const std::string& name);

  double seconds(const Transfer& transfer, int ranks) const;

 private:
  struct Curve {
    bool direct = false;
    std::map<double, double> seconds;  // by bytes
  };
  double latency_s_ = 0, byte_s_ = 0;
  std::map<std::string, std::map<int, Curve>> curves_;  // by collective, then ranks
};

// One measured setting.
struct StepModel {
  int ranks = 1;                  // that it was measured on
  bool direct = false;            // its all-reduces
  bool divides_batch = false;     // strong scaling: a device computes its part of the global batch
  double loader_s = 0;            // for a step's inputs; 0: the loader keeps up
  double backward_end_s = 0;      // since the step had its inputs
  std::vector<Transfer> hidden;   // behind backward, in order
  std::vector<Transfer> exposed;  // after it
  double cycle = 1;               // steps for each time that `exposed` move
  double shared_update_s = 0;     // of which each device does its part
  double rest_s = 0;              // all else: update, host
  std::vector<double> samples_s;  // measured steps, sorted

  // Sets rest_s so that the model gives `step_s` with what was measured. `waited_s`: for inputs.
  void fit(double step_s, double waited_s);
  // `cost`: null for the network of the measured run. REQUIRES: `cost`, or ranks > 1.
  double step_s(int devices, const CommCost* cost) const;
};

// The expected maximum of `draws` draws from sorted samples; a fraction of a draw is allowed.
double expected_slowest(std::span<const double> sorted, double draws);

// ---- what reports give it (prediction.cpp) ----

struct PredictionOptions {
  std::vector<int> devices;
  std::optional<CommCost> cost;       // not set: that of the measured run
  std::string cost_words;             // "over links of 25Gbit,50us"
  std::optional<double> price_per_h;  // of a device
};

struct PredictedRow {
  const Run* run = nullptr;  // on which it is fitted
  std::string strategy;
  std::string name;  // "ddp", "ddp (overlap off)"
  int devices = 1;
  double step_s = 0, samples_per_s = 0;
  std::optional<double> measured_s;    // where the report has such a run
  std::string doubt;                   // of that run, where there is none of `run`
  Figure speedup;                      // to `single`; missing where `run` is in doubt
  std::optional<double> memory_bytes;  // peak of a worker
  std::optional<double> training_s;    // of the run's epochs over the whole data set
};

// By setting, then devices. Points into `report`. Throws ConfigError where `report`, called `name`,
// has nothing to predict from.
std::vector<PredictedRow> predict(const Report& report, const std::string& name,
                                  const PredictionOptions& options);
// A report of `rows`, which point into `measured`, without times and command line. Its runs are
// marked as predicted, so that nothing pairs or ranks them with measured ones.
Report predicted_report(const Report& measured, std::span<const PredictedRow> rows);
// The table and what it rests on, at most `width` columns wide (0: not limited).
std::string prediction_text(std::span<const PredictedRow> rows, const PredictionOptions& options,
                            int width);

}  // namespace ddpbench::report
