// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics of samples, the slowest rank, bandwidths, and the bounds of verification.
#include "reports/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/ranges.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr const char* kNoEpoch = "no epoch ended";

// Of the devices that count; missing where that of one of them is.
Figure largest_peak(const Run& run, bool (*counts)(const DeviceRow&)) {
  Figure most = Figure::missing("no memory was recorded");
  for (const DeviceRow& device : run.devices) {
    if (!counts(device)) continue;
    const Figure peak = device.peak_memory();
    if (!peak.value) return peak;
    most = Figure::of(std::max(most.value.value_or(0), *peak.value));
  }
  return most;
}

// ---- verification: docs/verification.md has the derivations; their steps are named here ----

// The probability that rounding alone exceeds the bound in one sum of n terms.
constexpr double kFailureProbability = 1e-6;

// A rank that misses an update is off by the whole update. The cap stays 50 times below that.
constexpr double kLargestTolerance = 1.0 / 50;

// The probability that more elements of a tensor are stored differently than allowed, and how much
// denser than evenly the exact values may lie around the middle between two numbers.
constexpr double kStoredFailureProbability = 1e-12;
constexpr double kDensity = 4;

// Higham and Mary 2019, Theorem 3.1: all n partial sums stay within lambda of their deviation with
// probability 1 - 2 n exp(-lambda^2 / 2).
double confidence_factor(double terms) {
  return std::sqrt(2 * std::log(2 * terms / kFailureProbability));
}

// Chernoff: a sum of independent values in [0, 1] with mean `mean` is below the result except with
// the probability above: exp(-(t ln(t / mean) - t + mean)). Bernstein's bound is above the result.
double most_of_sum(double mean) {
  const double limit = -std::log(kStoredFailureProbability);
  double low = mean;
  double high = mean + limit / 3 + std::sqrt(limit * limit / 9 + 2 * limit * mean);
  for (int i = 0; i < 60; ++i) {
    const double t = (low + high) / 2;
    (t * std::log(t / mean) - t + mean < limit ? low : high) = t;
  }
  return high;
}

}  // namespace

Figure overlap_ratio(double comm_s, double overlapped_s) {
  if (!(comm_s > 0)) return Figure::missing("no communication");
  return Figure::of(overlapped_s / comm_s);
}

double quantile(std::span<const double> sorted, double q) {
  ensure(!sorted.empty(), "quantile of no values");
  ensure(q >= 0 && q <= 1, "quantile {} is outside [0, 1]", q);
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[below + 1] - sorted[below]);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_rate(std::vector<double> rates) {
  std::ranges::sort(rates);
  const double above = rates[rates.size() / 2], below = rates[(rates.size() - 1) / 2];
  // Equal for an odd number, which is not rounded.
  return above == below ? above : 2 * above / (above + below) * below;
}

StepStatistics summarize(std::vector<double> values) {
  std::ranges::sort(values);
  StepStatistics statistics;
  statistics.median = quantile(values, 0.5);
  statistics.iqr = values.size() > 1 ? Figure::of(quantile(values, 0.75) - quantile(values, 0.25))
                                     : Figure::missing("one value has no spread");
  statistics.p5 = quantile(values, 0.05);
  statistics.p95 = quantile(values, 0.95);
  statistics.p99 = quantile(values, 0.99);
  statistics.min = values.front();
  statistics.max = values.back();
  return statistics;
}

std::vector<double> slowest_rank_per_step(std::span<const std::vector<double>> ranks) {
  if (ranks.empty()) return {};
  std::size_t finished = std::numeric_limits<std::size_t>::max();
  for (const auto& rank : ranks) finished = std::min(finished, rank.size());
  std::vector<double> slowest(ranks.front().begin(),
                              ranks.front().begin() + static_cast<std::ptrdiff_t>(finished));
  for (const auto& rank : ranks.subspan(1)) {
    for (std::size_t step = 0; step < finished; ++step) {
      slowest[step] = std::max(slowest[step], rank[step]);
    }
  }
  return slowest;
}

void add_counts(ClassCounts& sum, const ClassCounts& part) {
  sum.resize(std::max(sum.size(), part.size()));
  for (std::size_t c = 0; c < part.size(); ++c) {
    sum[c].hits += part[c].hits;
    sum[c].labels += part[c].labels;
    sum[c].predicted += part[c].predicted;
  }
}

std::optional<double> mean_iou(const ClassCounts& counts) {
  double sum = 0;
  int classes = 0;
  for (const ClassCount& count : counts) {
    const std::int64_t either = count.labels + count.predicted - count.hits;
    if (either == 0) continue;
    sum += static_cast<double>(count.hits) / static_cast<double>(either);
    ++classes;
  }
  return classes == 0 ? std::nullopt : std::optional(sum / classes);
}

bool reaches_accuracy(double accuracy, double target) {
  constexpr double kRounding = 1e-9;  // far below one of any number of test samples
  return accuracy >= target * (1 - kRounding);
}

std::string accuracy_words(double accuracy) { return fmt::format("{:g} %", 100 * accuracy); }
std::string accuracy_words(const AccuracyTarget& wanted) {
  return accuracy_words(wanted.target) + (wanted.is_of_miou() ? " mIoU" : "");
}

void fill_time_to_accuracy(Run& run) {
  AccuracyTarget& wanted = *run.until_accuracy;
  if (run.resumed) {
    wanted.train_s = Figure::missing("training went on from a checkpoint");
    return;
  }
  double seconds = 0;
  std::optional<double> best;
  for (const EpochRow& epoch : run.epochs) {
    seconds += epoch.time_s;
    const auto& reached = wanted.is_of_miou() ? epoch.test_miou : epoch.test_accuracy.value;
    if (!reached) continue;
    best = std::max(best.value_or(0), *reached);
    if (!reaches_accuracy(*best, wanted.target)) continue;
    wanted.train_s = Figure::of(seconds);
    return;
  }
  if (!is_complete(run) || !best) {
    wanted.train_s = Figure::missing(is_complete(run) ? "not evaluated" : missing_reason(run));
    return;
  }
  // Rounded down: what was missed must not look like what was asked for.
  wanted.train_s = Figure::missing(
      fmt::format("{} was not reached in {}: {}{:.2f} % (--epochs allows more)",
                  accuracy_words(wanted), counted(run.epochs.size(), "epoch"),
                  run.epochs.size() > 1 ? "at best " : "", std::floor(1e4 * *best) / 100));
}

Figure time_to_accuracy(const Run& run) {
  return run.until_accuracy ? run.until_accuracy->train_s : Figure::missing("no --until-accuracy");
}

Figure step_figure(const Run& run, double StepStatistics::*member) {
  const auto& time = run.step.time_s;
  return time ? Figure::of((*time).*member) : Figure::missing("no step was timed");
}

Figure epoch_time(const Run& run) {
  return run.epochs.empty() ? Figure::missing(kNoEpoch)
                            : Figure::of(median(mapped(run.epochs, &EpochRow::time_s)));
}

Figure final_loss(const Run& run) {
  if (run.epochs.empty()) return Figure::missing(kNoEpoch);
  const double loss = run.epochs.back().train_loss;
  if (run.status == Status::diverged && run.error) return Figure::missing(run.error->message);
  return std::isfinite(loss) ? Figure::of(loss) : Figure::missing(kDivergedReason);
}

Figure final_accuracy(const Run& run) {
  if (run.evaluation) return run.evaluation->accuracy;
  return run.epochs.empty() ? Figure::missing(kNoEpoch) : run.epochs.back().test_accuracy;
}

Figure final_miou(const Run& run) {
  const std::optional<double> value = run.evaluation       ? run.evaluation->miou
                                      : run.epochs.empty() ? std::nullopt
                                                           : run.epochs.back().test_miou;
  return value ? Figure::of(*value) : Figure::missing("no map was predicted");
}

Figure primary_memory(const Run& run) {
  return largest_peak(
      run, [](const DeviceRow& device) { return device.role == "worker" && device.rank == 0; });
}

Figure other_memory(const Run& run) {
  if (run.world_size == 1) return Figure::missing("one device");
  return largest_peak(
      run, [](const DeviceRow& device) { return device.role == "worker" && device.rank > 0; });
}

Figure largest_memory(const Run& run) {
  return largest_peak(run, [](const DeviceRow&) { return true; });
}

Figure busy_share(const DeviceRow& device) {
  if (device.role != "worker") return Figure::missing("servers compute no network");
  if (!device.step_time_median_s.value) return device.step_time_median_s;
  double computed_s = 0;
  for (const char* name : {"forward_s", "backward_s"}) {
    const Figure phase = phase_of(device.phases, name);
    if (!phase.value)
      return Figure::missing(phase.reason.empty() ? "its phases were not recorded" : phase.reason);
    computed_s += *phase.value;
  }
  computed_s += seconds_of(device.phases, "optimizer_s");  // another device or a server may update
  const double step_s = *device.step_time_median_s.value;
  return step_s > 0 ? Figure::of(std::min(computed_s / step_s, 1.0))
                    : Figure::missing("no timed step was finished");
}

bool knows_busy_shares(const Run& run) {
  return std::ranges::any_of(
      run.devices, [](const DeviceRow& device) { return busy_share(device).value.has_value(); });
}

std::string stage_idle_words(const Run& run) {
  const auto stages = number_in<double>(option_of(run, "stages"));
  const auto passes = number_in<double>(option_of(run, "micro_batches"));
  std::vector<std::string> shares;
  for (const DeviceRow& device : run.devices) {
    const std::optional<double> wait_s = phase_of(device.phases, "stage_wait_s").value;
    const std::optional<double>& step_s = device.step_time_median_s.value;
    if (wait_s && step_s)
      shares.push_back(fmt::format("{:.0f}", 100 * std::min(1.0, *wait_s / *step_s)));
  }
  if (shares.empty() || !stages || !passes) return "";
  // (P-1)/(M+P-1) of P equal stages and M passes (Huang et al., "GPipe").
  const double least = (*stages - 1) / (*passes * run.accumulation_steps + *stages - 1);
  return fmt::format("stages idle {} % (equal ones at least {:.0f} %)", fmt::join(shares, "/"),
                     100 * least);
}

std::string_view crowd_words(const Run& run) {
  return run.device == "cuda" ? "ranks share GPUs or cores" : "more compute threads than cores";
}

std::string composed_words(const Run& run) {
  if (!run.strategy_options.contains("reduce_scatter")) return "";
  return fmt::format("{} has no reduce-scatter: each is an all-reduce, of twice the bytes",
                     run.backend);
}

Figure flops_per_s_per_device(const Run& run) {
  if (!run.flops_per_sample) return Figure::missing("the network's operations were not recorded");
  if (!run.samples_per_s_per_device.value) return run.samples_per_s_per_device;
  return Figure::of(*run.flops_per_sample * *run.samples_per_s_per_device.value);
}

Figure peak_share(const Run& run) {
  const Figure rate = flops_per_s_per_device(run);
  if (!rate.value) return rate;
  const Figure& peak = run.peak_flops_per_s_per_device;
  if (!peak.value) return Figure::missing(peak.reason.empty() ? "not recorded" : peak.reason);
  if (*peak.value <= 0) return Figure::missing("the measured peak is 0");
  return Figure::of(*rate.value / *peak.value);
}

Known<SampleRange> gpu_figure(const Run& run, Known<SampleRange> GpuTelemetry::*figure) {
  auto found = Known<SampleRange>::missing("no GPU was sampled");
  std::vector<double> medians;
  for (const DeviceRow& device : run.devices) {
    if (!device.gpu_telemetry.value) continue;
    const Known<SampleRange>& own = (*device.gpu_telemetry.value).*figure;
    if (!found.value) found = own;
    if (!own.value) continue;
    medians.push_back(own.value->median);
    found.value = {median(medians), std::min(found.value->min, own.value->min),
                   std::max(found.value->max, own.value->max)};
  }
  return found;
}

Figure others_idle(const Run& run) {
  if (!strategy_row(run.strategy).through_primary) {
    return Figure::missing("dp alone has devices beside a primary one");
  }
  std::vector<double> idle;
  for (const DeviceRow& device : run.devices) {
    if (device.rank == 0) continue;
    const Figure waits = phase_of(device.phases, "comm_wait_s");
    const Figure idles = phase_of(device.phases, "idle_s");
    if (waits.value && idles.value) {
      idle.push_back(*waits.value + *idles.value);
    } else if (!idles.reason.empty()) {
      return Figure::missing(idles.reason);
    }
  }
  if (!idle.empty()) return Figure::of(median(std::move(idle)));
  return Figure::missing(run.world_size == 1 ? "one device" : "not recorded");
}

double algorithm_bandwidth_gb_per_s(double bytes, double seconds) {
  ensure(seconds > 0, "bandwidth of {} bytes in {} s", bytes, seconds);
  return bytes / seconds / 1e9;
}

// A rank's link carries factor x bytes in every algorithm (NCCL tests, doc/PERFORMANCE.md): in an
// all-reduce each of the n-1 foreign parts passes twice, once to sum and once to copy.
double bus_bandwidth_factor(const std::string& collective, int ranks) {
  ensure(ranks >= 1, "{} of {} ranks", collective, ranks);
  const double foreign = (ranks - 1.0) / ranks;
  if (collective == "all_reduce") return 2 * foreign;
  for (const char* name : {"all_gather", "reduce_scatter", "gather", "scatter"}) {
    if (collective == name) return foreign;
  }
  for (const char* name : {"broadcast", "reduce", "send", "recv", "send_recv"}) {
    if (collective == name) return 1;
  }
  throw InternalError(fmt::format("no bus bandwidth factor for the collective '{}'", collective));
}

CollectiveTraffic collective_traffic(const std::string& collective, int ranks, double bytes) {
  ensure(ranks >= 1, "{} of {} ranks", collective, ranks);
  const double all = ranks * bytes;
  // In place: results replace the contributions.
  if (collective == "all_reduce") return {all + all, all};
  if (collective == "reduce") return {all + bytes, all};
  if (collective == "broadcast") return {bytes + (all - bytes), all};
  // From one buffer to another.
  if (collective == "all_gather") return {bytes + all, bytes + all};
  if (collective == "reduce_scatter") return {all + bytes, all + bytes};
  if (collective == "scatter" || collective == "gather") return {2 * bytes, 2 * bytes};
  if (collective == "send_recv") return {all + all, all + all};
  if (collective == "barrier") return {};
  throw InternalError(fmt::format("no traffic is known for the collective '{}'", collective));
}

double bound_bus_bandwidth_gb_per_s(const std::string& collective, int ranks, double bytes,
                                    double memory_gb_per_s) {
  const double seconds =
      collective_traffic(collective, ranks, bytes).moved_bytes / (memory_gb_per_s * 1e9);
  return algorithm_bandwidth_gb_per_s(bytes, seconds) * bus_bandwidth_factor(collective, ranks);
}

double verification_tolerance(double unit_roundoff, double terms) {
  ensure(unit_roundoff > 0 && unit_roundoff < 1, "unit roundoff {}", unit_roundoff);
  ensure(terms >= 1 && std::isfinite(terms), "a sum of {} terms", terms);
  // sqrt(2) for two independent roundings, times the condition factor sqrt(1/2) of sums whose terms
  // cancel like independent ones.
  return std::min(confidence_factor(terms) * std::sqrt(terms) * unit_roundoff, kLargestTolerance);
}

double stored_difference_bound(double exact, const StoredSpacing& spacing) {
  if (!(exact > 0) || !(spacing.largest > 0)) return exact;
  // An element is stored differently with a probability of at most its difference / spacing. With
  // Cauchy-Schwarz, the squared spacings of all such elements have at most this mean, in units of
  // the largest.
  const double all = std::sqrt(spacing.squared_sum);
  const double unit = spacing.largest * spacing.largest;
  const double mean = kDensity * all / spacing.largest * (exact / spacing.largest);
  const double most =
      mean < spacing.squared_sum / unit ? most_of_sum(mean) * unit : spacing.squared_sum;
  return exact + std::min(all, std::sqrt(most));
}

}  // namespace ddpbench::report
