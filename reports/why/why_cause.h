// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From parts to their cause, and to words. Private to reports/.
#pragma once

#include <cstdint>
#include <string>

#include "reports/why/why.h"
#include "reports/why/why_parts.h"

namespace ddpbench::report {

// What the parts are ranked by: the loss against `single`; without a baseline, everything but
// compute.
StepParts ranked_losses(const Decomposition& split);

// Parts of the step that have the same cause.
struct Loss {
  double seconds = 0;
  Cause cause = Cause::unknown;
  const char* title = "";
};
Loss largest_loss(const Run& run, const Decomposition& split);

Cause find_cause(const Run& run, const Decomposition& split);

// Bytes of gradients that a step moves.
double gradient_bytes(const Run& run);
// With ddp: the bucket that keeps the rank longest after its backward ended, and for how long.
struct LateBucket {
  const BucketRow* row = nullptr;
  double exposed_s = 0;
};
LateBucket latest_bucket(const Decomposition& split);

std::string cause_sentence(Cause cause, const Report& report, const Run& run,
                           const Decomposition& split);
std::string cause_advice(Cause cause, const Report& report, const Run& run,
                         const Decomposition& split);

}  // namespace ddpbench::report
