// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See store_tuner.h.
#include "parallel/comm/shm/store_tuner.h"

namespace ddpbench::comm {

StoreMode StoreTuner::begin_operation() noexcept {
  ++operation_;
  const std::uint64_t place = operation_ % kPeriod;
  const bool probes = place == kProbe || place == kProbe + 1;
  const StoreMode other = chosen_ == StoreMode::cached ? StoreMode::streaming : StoreMode::cached;
  current_ = probes ? other : chosen_;
  return current_;
}

void StoreTuner::record(std::size_t bytes, double seconds) noexcept {
  // What streams past the cache is read from memory by whoever uses the result, which is not in
  // these times: streaming must be faster by this much to be chosen.
  constexpr double kAdvantage = 1.25;
  const double now = seconds / static_cast<double>(bytes);
  double& known = current_ == StoreMode::cached ? cached_s_per_byte_ : streaming_s_per_byte_;
  known = known == 0 ? now : 0.5 * (known + now);
  if (cached_s_per_byte_ == 0 || streaming_s_per_byte_ == 0) return;
  chosen_ = kAdvantage * streaming_s_per_byte_ < cached_s_per_byte_ ? StoreMode::streaming
                                                                    : StoreMode::cached;
}

}  // namespace ddpbench::comm
