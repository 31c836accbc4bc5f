// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/loss_progress.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/math.h"

namespace ddpbench::bench {
namespace {

constexpr double kReadingShare = 0.0005;  // of a step, at most; a tenth of what observing may take
constexpr double kLineInterval_s = 1;

}  // namespace

LossProgress::LossProgress(Device& device, Stream& stream, BufferView totals,
                           launch::RankWriter& writer, std::int64_t steps)
    : device_(device), stream_(stream), totals_(totals), writer_(writer) {
  const auto least = ceil_div(std::max<std::int64_t>(steps, 1), kMostPoints);
  interval_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
  memory_ = device.allocate_staging(kReadings * sizeof(ops::LossTotals));
  for (Reading& reading : readings_) reading.copied = device.make_event();
  points_.reserve(kMostPoints);
}

BufferView LossProgress::memory_of(std::size_t reading) const {
  return memory_.view().slice(reading * sizeof(ops::LossTotals), sizeof(ops::LossTotals));
}

void LossProgress::queue_reading(std::size_t reading) {
  device_.copy(stream_, memory_of(reading), totals_);
  stream_.record(*readings_[reading].copied);
}

void LossProgress::choose_interval(double step_s) {
  constexpr int kProbes = 100;
  const double begin_s = device_.now_s();
  for (int i = 0; i < kProbes; ++i) queue_reading(0);
  stream_.synchronize();
  const double reading_s = (device_.now_s() - begin_s) / kProbes;
  const double wanted = std::ceil(reading_s / (kReadingShare * std::max(step_s, 1e-9)));
  const auto least = static_cast<std::uint64_t>(std::clamp(wanted, 1.0, 1e6));
  interval_ = std::max(interval_, static_cast<std::int64_t>(std::bit_ceil(least)));
}

void LossProgress::end_step() {
  ++step_;
  const double now_s = device_.now_s();
  const bool wanted = step_ % interval_ == 0 || now_s >= next_line_s_;
  if (wanted && queued_ < kReadings) {
    const std::size_t youngest = (oldest_ + queued_) % kReadings;
    readings_[youngest].step = step_;
    queue_reading(youngest);
    ++queued_;
    next_line_s_ = now_s + kLineInterval_s;
  }
  take_finished();
}

void LossProgress::end_epoch(const ops::LossTotals& totals) {
  take_finished();
  earlier_epochs_ += totals;
}

void LossProgress::take_finished() {
  while (queued_ > 0 && readings_[oldest_].copied->reached()) {
    ops::LossTotals totals;
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): each reading has memory
    std::memcpy(&totals, memory_of(oldest_).data, sizeof(totals));
    totals += earlier_epochs_;
    take(readings_[oldest_].step, totals);
    oldest_ = (oldest_ + 1) % kReadings;
    --queued_;
  }
}

// `totals`: of all training until then.
void LossProgress::take(std::int64_t step, const ops::LossTotals& totals) {
  const std::uint64_t counted = totals.counted - last_told_.counted;
  if (counted > 0) {
    writer_.loss((totals.loss_sum - last_told_.loss_sum) / static_cast<double>(counted));
  }
  last_told_ = totals;
  if (step % interval_ != 0) return;
  points_.push_back({step, totals.loss_sum, totals.correct, totals.counted});
}

}  // namespace ddpbench::bench
