// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The formulas of reports. docs/metrics.md explains them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

// Interpolates linearly between the closest ranks (numpy's default). REQUIRES: `sorted` is not
// empty, q in [0, 1].
double quantile(std::span<const double> sorted, double q);
double median(std::vector<double> values);
double mean(std::span<const double> values);  // REQUIRES: there are some
// The median of rates (samples/s, speed-ups: shares of a time) that fits the median of their times:
// of an even number, the harmonic mean of the two in the middle. REQUIRES: `rates` is not empty and
// has none below 0.
double median_rate(std::vector<double> rates);
StepStatistics summarize(std::vector<double> values);

// overlapped / comm; missing, with a reason, when there was no communication.
Figure overlap_ratio(double comm_s, double overlapped_s);

// The maximum over ranks of each step. `ranks[r]` are rank r's step times; steps that not all ranks
// finished are left out. A rank without steps makes the result empty.
std::vector<double> slowest_rank_per_step(std::span<const std::vector<double>> ranks);

// The diagonal and the margins of the confusion matrix of predictions whose labels count.
struct ClassCount {
  std::int64_t hits = 0, labels = 0, predicted = 0;
};
using ClassCounts = std::vector<ClassCount>;  // one for each class; empty: not counted
void add_counts(ClassCounts& sum, const ClassCounts& part);
// The mean over the classes that were labels or predicted of hits / (labels + predicted - hits),
// the intersection over the union of a class's pixels (mIoU, as PASCAL VOC has it); nothing where
// there are none.
std::optional<double> mean_iou(const ClassCounts& counts);

// Whether a test accuracy is at least `target`. The rounding of both does not count: 0.07 as a
// share and 7 / 100 differ in the last bit.
bool reaches_accuracy(double accuracy, double target);
// Fills in until_accuracy->train_s from the epochs of the run, or why there is none.
// REQUIRES: run.until_accuracy.
void fill_time_to_accuracy(Run& run);
// until_accuracy->train_s; missing, with the reason, where the run had no target.
Figure time_to_accuracy(const Run& run);
std::string accuracy_words(double accuracy);               // "98 %" of 0.98
std::string accuracy_words(const AccuracyTarget& wanted);  // "98 %", or "70 % mIoU"

// Figures of a run as tables, the gate and exports show them; missing, with the reason, where they
// were not taken. The peak of the largest device counts for the others, or for all.
Figure step_figure(const Run& run, double StepStatistics::*member);
Figure epoch_time(const Run& run);  // the median over the epochs that ended
Figure final_loss(const Run& run);
Figure final_accuracy(const Run& run);
Figure final_miou(const Run& run);  // of networks that predict maps
Figure primary_memory(const Run& run);
Figure other_memory(const Run& run);
Figure largest_memory(const Run& run);

// The share of a device's median step in which it computed: forward, backward, and the update if it
// has one. At most 1: medians do not add up exactly. Missing, with the reason, for
// servers, which compute no network, and where its phases were not observed.
Figure busy_share(const DeviceRow& device);
// pipeline: the share of the step in which each stage waits for what its neighbours compute:
// "stages idle 45/12 % (equal ones at least 20 %)"; empty for other strategies.
std::string stage_idle_words(const Run& run);
// Why an oversubscribed run says nothing: what its ranks share.
std::string_view crowd_words(const Run& run);
// What is to be known of reduce-scatters that are no such call of the backend's; empty: nothing.
std::string composed_words(const Run& run);
// Whether the share of any worker is known.
bool knows_busy_shares(const Run& run);
// Operations of forward and backward a second and device: flops_per_sample x samples/s / devices.
Figure flops_per_s_per_device(const Run& run);
// The same as a share of the most that the device can do (peak_flops_per_s_per_device).
Figure peak_share(const Run& run);

// What the driver told of the GPUs of a run while it trained: the median over them of the medians
// of their samples, and the least and the most of all. Missing, with the reason, without GPUs.
Known<SampleRange> gpu_figure(const Run& run, Known<SampleRange> GpuTelemetry::*figure);

// dp: how long the devices beside the primary wait for it or have nothing to do in a step: the
// median over them of comm_wait_s + idle_s. Missing, with the reason, in other strategies and where
// it was not recorded.
Figure others_idle(const Run& run);

// Bandwidths as in nccl-tests (GB = 1e9 bytes): algbw = bytes / time.
double algorithm_bandwidth_gb_per_s(double bytes, double seconds);
// busbw = algbw * factor. The factor is 2(n-1)/n for all_reduce; (n-1)/n for all_gather,
// reduce_scatter, gather and scatter, with the bytes of the whole; 1 for broadcast, reduce, send,
// recv and send_recv. Throws InternalError for an unknown collective.
double bus_bandwidth_factor(const std::string& collective, int ranks);

// A lower bound of the memory traffic of every algorithm whose ranks share memory
// (docs/metrics.md): each byte that contributes is read once and each byte of a result is written
// once, except what a rank already has in place. `bytes`: of the whole buffer, as nccl-tests counts
// it. Nothing for "barrier". Throws InternalError for an unknown collective.
struct CollectiveTraffic {
  double moved_bytes = 0;      // at least read and written, by all ranks together
  double footprint_bytes = 0;  // different bytes touched, by all ranks together
};
CollectiveTraffic collective_traffic(const std::string& collective, int ranks, double bytes);
// The bus bandwidth that keeps memory busy all the time. `memory_gb_per_s`: bytes read and written
// by the cores of all ranks together. REQUIRES: the collective moves bytes.
double bound_bus_bandwidth_gb_per_s(const std::string& collective, int ranks, double bytes,
                                    double memory_gb_per_s);

// How far two computations of the same update may be apart by rounding alone:
// docs/verification.md derives both bounds.

// A bound on the relative error between two computations of the same gradients from the same
// weights, which differ in the order of their sums. `terms`: number of additions behind an element
// of a gradient. `unit_roundoff`: 2^-24 for fp32. Never above 1/50, so that no planted fault
// passes. Throws InternalError for what is no computation.
double verification_tolerance(double unit_roundoff, double terms);

// The spacing of fp32 numbers around the values of one tensor.
struct StoredSpacing {
  double squared_sum = 0;  // sum of the squared spacings of all elements
  double largest = 0;      // spacing around the largest element
};

// A bound on the 2-norm of the difference of two tensors after both were stored, when it was at
// most `exact` before: values that are nearly equal may be rounded to different neighbours.
double stored_difference_bound(double exact, const StoredSpacing& spacing);

}  // namespace ddpbench::report
