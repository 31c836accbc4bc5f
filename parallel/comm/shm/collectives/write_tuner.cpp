// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/write_tuner.h"

namespace ddpbench::comm {

WriteMode WriteTuner::begin_operation() noexcept {
  ++operation_;
  const std::uint64_t place = operation_ % kPeriod;
  const bool probes = place == kProbe || place == kProbe + 1;
  const WriteMode other =
      chosen_ == WriteMode::cached ? WriteMode::non_temporal : WriteMode::cached;
  current_ = probes ? other : chosen_;
  return current_;
}

void WriteTuner::record(std::size_t bytes, double seconds) noexcept {
  // What bypasses the cache is later read from memory, which is not in these times. So non-temporal
  // stores must be faster by this factor to be chosen.
  constexpr double kAdvantage = 1.25;
  const double now = seconds / static_cast<double>(bytes);
  double& known = current_ == WriteMode::cached ? cached_s_per_byte_ : non_temporal_s_per_byte_;
  known = known == 0 ? now : 0.5 * (known + now);
  if (cached_s_per_byte_ == 0 || non_temporal_s_per_byte_ == 0) return;
  chosen_ = kAdvantage * non_temporal_s_per_byte_ < cached_s_per_byte_ ? WriteMode::non_temporal
                                                                       : WriteMode::cached;
}

}  // namespace ddpbench::comm
