// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PeakRates: how many operations a second the CPU devices of a run could do at most, measured in
// the supervisor before the run: multiply-adds in registers, of fp32 or of bf16, as the run's
// products are (kernels/ops/cpu/multiply_adds.h).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/plan/training_job.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

class PeakRates {
 public:
  // Floating-point operations a second of one device of the run, while all devices do the same.
  // The first run on a set of cores in a precision takes about 15 ms for it; later ones get the
  // same figure. It is missing where a device is no CPU, shares its cores, or computes in AMX's
  // tiles.
  report::Figure of(const TrainingJob& job);

 private:
  // The keys are cores and a precision; a figure is that of all the cores together.
  std::map<std::pair<std::vector<int>, std::string>, report::Figure> known_;
};

}  // namespace ddpbench::bench
