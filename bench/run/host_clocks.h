// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The clocks of a run's hosts: read_clock measures one against that of the host that serves the
// store, which is rank 0's. HostClocks has what all ranks measured, and what follows for the times
// that they recorded (docs/metrics.md).
#pragma once

#include <string>
#include <vector>

#include "bench/rank/rank_result.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Asks for the other clock some dozen times, for half a second at most. The other clock was read
// within the round trip, so its middle is right within half of it; the shortest counts (Cristian,
// "Probabilistic clock synchronization", Distributed Computing 3, 1989). Throws CommError.
ClockReading read_clock(comm::Store& store);

// What the ranks of a run left: [rank]. Servers take no steps.
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
  Clock& clock_of(const std::string& host);
  double bound_of(const Clock& clock) const;
  double offset_at(const Clock& clock, double time_s) const;

  std::vector<Clock> clocks_;
  std::vector<int> clock_of_rank_;  // index in clocks_; -1: unknown
};

}  // namespace ddpbench::bench
