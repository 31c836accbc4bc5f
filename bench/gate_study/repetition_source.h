// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the study's repetitions come from: models of a machine's noise, or recorded runs. Every
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

// Standard normal numbers, the same everywhere for one seed (std::normal_distribution is not).
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double operator()();
  double uniform();                  // in [0, 1)
  std::size_t below(std::size_t n);  // in [0, n)

 private:
  std::mt19937_64 engine_;
};

// How the logarithm of the step time differs from repetition to repetition. `noise` is the standard
// deviation over all repetitions of a program, drift and autocorrelation included; disturbances
// come on top. The 95th percentile varies by as much again.
struct NoiseModel {
  std::string name;
  double autocorrelation = 0;  // of consecutive runs
  double drift = 0;            // from the first run to the last, in units of `noise`
  double disturbed =
      0;                // share of the repetitions that something else on the machine slows by 25 %
  bool in_turn = true;  // base new new base ...; else all of the base first
};
std::span<const NoiseModel> noise_models();

// Runs of one pair: `base` and `fresh` repetitions, the fresh ones `slowdown` times as slow.
struct Draw {
  std::vector<report::Run> base, fresh;
};
Draw draw_model(const NoiseModel& model, double noise, int repetitions, double slowdown,
                Normal& random);
// From `pool` without putting back; REQUIRES: 2 repetitions <= its size.
Draw draw_recorded(std::span<const report::Run> pool, int repetitions, double slowdown,
                   Normal& random);

}  // namespace ddpbench::bench
