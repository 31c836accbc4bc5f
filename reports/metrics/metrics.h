// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Every formula that reports use, once. docs/metrics.md explains them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/strategies.h"

namespace ddpbench::report {

// Linear interpolation between closest ranks (numpy's default). q in [0, 1]. REQUIRES: not empty.
double quantile(std::span<const double> sorted, double q);
double median(std::vector<double> values);
StepStatistics summarize(std::vector<double> values);

// Half-open interval of time, seconds.
struct Interval {
  double begin = 0, end = 0;
};
// Sorted, disjoint, empty ones dropped.
std::vector<Interval> merge_intervals(std::vector<Interval> intervals);
double total_length(std::span<const Interval> merged);
// Length of the intersection of two merged sets.
double intersection_length(std::span<const Interval> a, std::span<const Interval> b);

// Communication of one step on one rank.
struct CommunicationTimes {
  double comm_s = 0;        // length of the union of the communication intervals
  double overlapped_s = 0;  // part during which compute ran too
  double exposed_s = 0;     // the rest
};
CommunicationTimes communication_times(std::vector<Interval> communication,
                                       std::vector<Interval> compute);
// overlapped / comm; missing (with a reason) when there was no communication.
Figure overlap_ratio(double comm_s, double overlapped_s);

// One value a step: the maximum over ranks. `ranks[r]` are rank r's step times; steps that not all
// ranks finished are left out. A rank without steps gives an empty result.
std::vector<double> slowest_rank_per_step(std::span<const std::vector<double>> ranks);

// speedup = throughput / single's throughput; efficiency = speedup / world_size.
Scaling scaling(double samples_per_s, double single_samples_per_s, int world_size);
// Fills run.scaling or run.scaling_reason of every run from the `single` run of the same report
// (same device kind and model, threads, network, precision; median over repetitions; in weak
// scaling the same per-device batch, in strong scaling the same global batch).
void fill_scaling(Report& report);

// The repetitions of the `single` run that `run` is measured against, as fill_scaling pairs them;
// usable ones only, and pointers into `report`.
std::vector<const Run*> baseline_runs(const Report& report, const Run& run);
// Why there are none.
std::string no_baseline_reason(const Report& report, const Run& run);

// Bandwidths as nccl-tests (GB = 1e9 bytes): algbw = bytes / time.
double algorithm_bandwidth_gb_per_s(double bytes, double seconds);
// busbw = algbw * factor: all_reduce 2(n-1)/n; all_gather, reduce_scatter, gather, scatter (n-1)/n
// with bytes of the whole; broadcast, reduce, send, recv, send_recv 1. Throws InternalError for an
// unknown collective.
double bus_bandwidth_factor(const std::string& collective, int ranks);

// Bound on the relative error between two computations of the same K = `steps` updates that differ
// only in the order of their sums; docs/metrics.md derives it. `longest_sum`: terms of the longest
// reduction behind a gradient element (global batch x output positions); `unit_roundoff` 2^-24 for
// fp32. Never above 1/(25 K), so that no planted fault passes.
double verification_tolerance(double unit_roundoff, double longest_sum, int steps);

}  // namespace ddpbench::report
