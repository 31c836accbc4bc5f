// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the verification of one case of the study within this process: the reference and then the
// ranks, a thread each, with the program's own code from the loader to the comparison.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/verification_study/study_case.h"

namespace ddpbench::bench {

struct StudyOutcome {
  bool passed = false;
  std::string diverged;  // why steps could not be compared; empty: all were
  std::string failure;   // why it did not pass
  std::string missed;    // why the planted fault hits nothing; then nothing was run
  std::int64_t steps = 0;
  double worst = 0;                    // the largest error in units of its tolerance
  std::vector<std::uint64_t> weights;  // a hash of each replica's weights over all steps
};

// Runs cases one after the other. It has a directory of its own, which goes with it.
class StudyRunner {
 public:
  StudyRunner();
  ~StudyRunner();
  StudyRunner(const StudyRunner&) = delete;
  StudyRunner& operator=(const StudyRunner&) = delete;

  // Throws the first error of a rank.
  StudyOutcome run(const StudyCase& drawn);

 private:
  HostDevices host_;
  std::string directory_;
};

}  // namespace ddpbench::bench
