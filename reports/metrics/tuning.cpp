// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

std::string tenths_of_percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

std::string interval_text(const Tune& tune) {
  return fmt::format("95 % interval {} to {}, {} pairs of fresh runs",
                     tenths_of_percent(*tune.gain_low_ratio.value),
                     tenths_of_percent(*tune.gain_high_ratio.value), tune.confirmation_pairs);
}

}  // namespace

void judge_gain(Tune& tune, const std::vector<double>& ratios) {
  tune.confirmation_pairs = static_cast<int>(ratios.size());
  tune.recommended = false;
  const auto interval = median_interval(ratios);
  if (!interval) {
    tune.gain_ratio = tune.gain_low_ratio = tune.gain_high_ratio =
        Figure::missing(fmt::format("{} pairs of fresh runs succeeded, an interval needs {}",
                                    ratios.size(), kFewestForInterval));
    return;
  }
  tune.gain_ratio = Figure::of(1 - interval->median);
  tune.gain_low_ratio = Figure::of(1 - interval->high);
  tune.gain_high_ratio = Figure::of(1 - interval->low);
  tune.recommended =
      *tune.gain_low_ratio.value > 0 && *tune.gain_ratio.value >= tune.least_gain_ratio;
}

std::string describe(const TuneSetting& setting) {
  return fmt::format("first bucket {} MiB, bucket cap {} MiB, overlap {}", setting.first_bucket_mb,
                     setting.bucket_cap_mb, setting.overlap ? "on" : "off");
}

std::string conclude(const Tune& tune) {
  if (!tune.candidate) {
    return fmt::format(
        "Bucket sizes make no difference here: none of {} settings was faster than "
        "the default in {} rounds.",
        tune.settings.size(), tune.screening_rounds);
  }
  const std::string name = describe(tune.settings.at(*tune.candidate));
  if (!tune.gain_ratio.value) {
    return fmt::format("Nothing can be said: {} looked best, but {}.", name,
                       tune.gain_ratio.reason);
  }
  const TuneSetting& best = tune.settings[*tune.candidate];
  if (tune.recommended) {
    return fmt::format(
        "Use --first-bucket-mb={} --bucket-cap-mb={} --overlap={}: steps are {} shorter than with "
        "the default ({}).",
        best.first_bucket_mb, best.bucket_cap_mb, best.overlap ? "on" : "off",
        tenths_of_percent(*tune.gain_ratio.value), interval_text(tune));
  }
  if (*tune.gain_low_ratio.value > 0) {
    return fmt::format("Keep the default: {} is faster, but by {} only ({}).", name,
                       tenths_of_percent(*tune.gain_ratio.value), interval_text(tune));
  }
  if (*tune.gain_high_ratio.value < 0) {
    return fmt::format(
        "Keep the default: {} looked best of {} settings, but was {} slower when "
        "measured again ({}).",
        name, tune.settings.size(), tenths_of_percent(-*tune.gain_ratio.value),
        interval_text(tune));
  }
  return fmt::format(
      "Keep the default: it makes no difference that could be told from noise. The best of {} "
      "settings ({}) gained {} when measured again ({}).",
      tune.settings.size(), name, tenths_of_percent(*tune.gain_ratio.value), interval_text(tune));
}

}  // namespace ddpbench::report
