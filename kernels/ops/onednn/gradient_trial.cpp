// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The trial between two ways to compute a gradient of a convolution.
#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/ops/onednn/onednn_ops.h"

namespace ddpbench::ops::onednn {
namespace {

// The other way must take at most this share of the direct way's time, the least of several rounds.
// A first one with so many times that time ends the trial.
constexpr double kLargestShare = 0.8, kHopeless = 4;
constexpr int kRounds = 3;

}  // namespace

bool other_way_pays(const std::string& gradient, const std::function<void()>& direct,
                    const std::function<void()>& other, const std::function<double()>& now_s) {
  static std::mutex mutex;
  static std::map<std::string, bool> choices;
  const std::lock_guard lock(mutex);
  const auto [choice, is_new] = choices.try_emplace(gradient, false);
  if (!is_new) return choice->second;
  const auto seconds_of = [&now_s](const std::function<void()>& run) {
    const double begin_s = now_s();
    run();
    return now_s() - begin_s;
  };
  double direct_s = seconds_of(direct), other_s = seconds_of(other);
  for (int i = 1; i < kRounds && other_s < kHopeless * direct_s; ++i) {
    direct_s = std::min(direct_s, seconds_of(direct));
    other_s = std::min(other_s, seconds_of(other));
  }
  choice->second = other_s <= kLargestShare * direct_s;
  return choice->second;
}

}  // namespace ddpbench::ops::onednn
