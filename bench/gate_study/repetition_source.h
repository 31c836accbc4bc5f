// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The sources of the study's repetitions: models of a machine's noise, or recorded runs. Every
// source gives the same repetitions for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::bench {

// Standard normal numbers, equal everywhere for a seed (unlike std::normal_distribution's).
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double operator()();
  double uniform();                  // in [0, 1)
  std::size_t below(std::size_t n);  // in [0, n)

 private:
  std::mt19937_64 engine_;
};

// How the logarithm of the step time varies between repetitions. `noise` is the standard deviation
// over all repetitions of a program, drift and autocorrelation included. Disturbances come on top.
// The 95th percentile varies by as much again.
struct NoiseModel {
  std::string name;
  double autocorrelation = 0;  // of consecutive runs
  double drift = 0;            // from the first run to the last, in units of `noise`
  double disturbed =
      0;                // share of the repetitions that something else on the machine slows by 25 %
  bool in_turn = true;  // base new new base ...; false: all of the base first
};
std::span<const NoiseModel> noise_models();

// The runs of one pair; the candidate ones are `slowdown` times as slow as the base ones.
struct Draw {
  std::vector<report::Run> base, candidate;
};
Draw draw_model(const NoiseModel& model, double noise, int repetitions, double slowdown,
                Normal& random);
// Draws from `pool` without replacement. REQUIRES: 2 repetitions <= its size.
Draw draw_recorded(std::span<const report::Run> pool, int repetitions, double slowdown,
                   Normal& random);

}  // namespace ddpbench::bench
