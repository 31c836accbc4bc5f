// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankResult: what one rank of a run found out besides its step records. It travels through the
// rank's channel as CBOR (RFC 8949), which keeps infinities and NaN, again each time that it grows.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/loss_progress.h"
#include "bench/rank/reference_weights.h"
#include "kernels/runtime/buffer.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/strategy.h"
#include "reports/data/report.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {

// One epoch on one rank: sums over its samples, and times of the device clock. `counted`: labels
// that the network's loss does not ignore; one a sample, or one a pixel.
struct EpochResult {
  int epoch = 0;
  double begin_s = 0, end_s = 0;
  double saving_s = 0;  // between them, that it waited for checkpoints
  std::int64_t samples = 0;
  double loss_sum = 0;
  std::uint64_t correct = 0, counted = 0;
  std::int64_t test_samples = 0;
  double test_loss_sum = 0;
  std::uint64_t test_correct = 0, test_counted = 0;
  report::ClassCounts test_classes;
};

// One measurement of this host's clock against that of rank 0's host.
struct ClockReading {
  double at_s = 0;      // on this host's clock
  double offset_s = 0;  // this host's clock minus the other
  double bound_s = 0;   // the offset is wrong by so much at most
};

// Asks for the other clock some dozen times, for half a second at most. The other clock was read
// within the round trip, so its middle is right within half of it; the shortest counts (Cristian,
// "Probabilistic clock synchronization", Distributed Computing 3, 1989). Throws CommError.
ClockReading read_clock(comm::Store& store);

// What one participant of a run (devices, then servers) sends another in a step.
struct LinkTraffic {
  int from = 0, to = 0;
  std::uint64_t messages = 0, bytes = 0;
};

struct RankResult {
  std::string host;                             // its name, another one for each host of the run
  std::vector<report::DeviceRow> devices;       // without the times, which are in the step records
  std::string device_model;                     // of the first of them
  std::optional<std::uint64_t> peak_rss_bytes;  // of the process, since the verification
  std::int64_t parameters = 0;
  // What a worker's replicas took from others in its first step, and what it sent to servers.
  Known<std::vector<LinkTraffic>> traffic;
  ServedPushes pushes;                              // of a server
  std::optional<report::LossScaling> loss_scaling;  // of a worker that scales its loss, at the end
  // What all-reduces of registered memory ran: "ring", "direct", "ring,direct"; empty: not told.
  std::string all_reduce;
  std::vector<VerificationResult> verification;  // one per local replica; empty: not done
  // Seconds. Empty until that part is done; train_s and evaluate_s until one epoch is done.
  std::optional<double> verify_s, warmup_s, train_s, evaluate_s, load_s, save_s;
  std::vector<report::CheckpointRow> checkpoints;
  std::optional<std::int64_t> warmup_steps;  // steps taken; empty until warm-up is done
  std::optional<bool> warmup_steady;         // empty: too few steps to say
  std::vector<EpochResult> epochs;
  std::vector<LossPoint> progress;  // with --observe=on
  // The first timed step, from 1 over all epochs, whose loss on this rank is not finite; 0: none.
  std::int64_t diverged_step = 0;
  // A weight tensor of this rank that is not finite when training ends; empty: all are finite.
  std::string diverged_tensor;
  std::vector<std::string> calls;  // with --trace: [number in a layer record]
  // On several hosts, of one rank of each host but rank 0's: when the run began and when it ended.
  std::vector<ClockReading> clock;
};

std::string encoded(const RankResult& result);
// Empty bytes give an empty result.
RankResult decoded_rank_result(const std::string& bytes);

// Writes the error that ended a rank into its channel, unless there is one; returns the exit code.
// Call it before peers can notice that the rank does not go on.
int report_error(launch::RankWriter& writer, const std::exception& error);

}  // namespace ddpbench::bench
