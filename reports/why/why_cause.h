// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the cause, in one word, why a run is not faster, from the parts of its step, and makes the
// sentences about it. All but Cause is private to reports/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reports/why/why_parts.h"

namespace ddpbench::report {

enum class Cause : std::uint8_t {
  scales,                 // no large loss
  oversubscription,       // more compute threads than cores
  busy_machine,           // other programs or virtual machines took the cores: nothing else is told
  slow_rank,              // the others wait for the same rank or ranks in most steps
  imbalance,              // ranks wait for each other, but not always for the same one
  starved_input,          // the devices wait for the loader
  tiny_network,           // latency and launch overhead dominate: too little work, too few bytes
  slow_link,              // communication takes longer than the backward that could hide it
  exposed_communication,  // communication could be hidden but runs after backward
  primary_device,         // dp: transfers and loss through device 0, one after the other
  sync_batch_norm,        // layers wait for the statistics of the other devices
  servers,                // ps: the workers' gradients go through too few servers
  slowed_by_overlap,      // compute is slower while communication runs
  slowed_compute,         // compute is slower than on one device, not because of communication
  host_overhead,          // time between the phases
  small_losses,           // several losses, each too small for advice
  unknown                 // not enough was recorded; the sentence says what is missing
};
std::string_view to_string(Cause cause);  // "scales", "slow_rank", ...

// The values by which parts are ranked: the losses against `single`, or without a baseline all
// parts but compute.
StepParts ranked_losses(const Decomposition& split);

// The loss by one cause, summed over its parts of the step.
struct Loss {
  double seconds = 0;
  Cause cause = Cause::unknown;
  const char* title = "";
};
Loss largest_loss(const Run& run, const Decomposition& split);

Cause find_cause(const Run& run, const Decomposition& split);

// The bytes of all gradients of a step.
double gradient_bytes(const Run& run);
// The bucket of ddp that keeps the rank longest after the end of its backward, and for how long.
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
