// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/step_runner.h"

#include "base/error.h"

namespace ddpbench::bench {

void StepRunner::run(const StepInput& input) {
  if (!options_.records || !warm_) {
    options_.strategy->step(input);
    warm_ = true;
    return;
  }
  const bool observing = options_.recorder->observing();
  if (!recordings_.contains({input.images, observing})) record_both(input);
  if (observing) options_.recorder->replica().repeat_marks();
  if (options_.world != nullptr) options_.world->check();
  recordings_.at({input.images, observing})->replay(*options_.stream);
}

// Records with marks and without while the run still warms up: no timed step records anything.
void StepRunner::record_both(const StepInput& input) {
  for (const bool marked : {false, true}) {
    options_.recorder->replica().begin_recording(marked);
    recordings_[{input.images, marked}] = record(input);
    options_.recorder->replica().end_recording();
  }
}

std::unique_ptr<Recording> StepRunner::record(const StepInput& input) {
  options_.stream->begin_recording();
  try {
    options_.strategy->step(input);
  } catch (...) {
    // The stream must leave the recording. An error in doing so is not the cause.
    try {
      options_.stream->end_recording();
    } catch (const Error&) {
    }
    throw;
  }
  return options_.stream->end_recording();
}

}  // namespace ddpbench::bench
