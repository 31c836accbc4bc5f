// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PeakRates: how many operations a second the CPU devices of a run could do at most, measured in
// the supervisor before the run: fp32 multiply-adds in registers (kernels/ops/cpu/multiply_adds.h).
#pragma once

#include <map>
#include <vector>

#include "bench/plan/training_job.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

class PeakRates {
 public:
  // Floating-point operations a second of one device of the run, while all devices do the same.
  // The first run on a set of cores takes about 15 ms for it; later ones get the same figure.
  // Missing where a device is no CPU, shares its cores, or computes in another precision.
  report::Figure of(const TrainingJob& job);

 private:
  std::map<std::vector<int>, report::Figure> known_;  // of all the cores together
};

}  // namespace ddpbench::bench
