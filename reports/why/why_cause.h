// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Why a run is not faster, in a word: from the parts of its step to their cause, and to sentences.
// All but Cause is private to reports/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reports/why/why_parts.h"

namespace ddpbench::report {

enum class Cause : std::uint8_t {
  scales,                 // nothing large to gain
  oversubscription,       // more compute threads than cores
  slow_rank,              // the others wait for the same ranks in most steps
  imbalance,              // ranks wait for each other, none of them always
  starved_input,          // waiting for the loader
  tiny_network,           // latency and launch overhead, for want of work and bytes
  slow_link,              // communication takes longer than what it could hide behind
  exposed_communication,  // it could be hidden, but runs after backward
  primary_device,         // dp: transfers and loss through device 0, one after the other
  servers,                // ps: the workers' gradients go through too few servers
  slowed_by_overlap,      // compute slower while communication runs beside it
  slowed_compute,         // compute slower than on one device, communication apart
  host_overhead,          // between the phases
  small_losses,           // several, none of them worth an advice
  unknown                 // not enough was recorded; the sentence says what is missing
};
std::string_view to_string(Cause cause);  // "scales", "slow_rank", ...

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
