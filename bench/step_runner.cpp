// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/step_runner.h"

#include "kernels/runtime/error.h"

namespace ddpbench::bench {

void StepRunner::run(const StepInput& input) {
  if (!records_ || !warm_ || recorder_.tracing()) {
    strategy_.step(input);
    warm_ = true;
    return;
  }
  std::unique_ptr<Recording>& recording = recordings_[{input.images, recorder_.observing()}];
  if (!recording) {
    recording = record(input);
    if (recorder_.observing()) recorder_.keep_marks();
  } else if (recorder_.observing()) {
    recorder_.repeat_marks();
  }
  recording->replay(stream_);
}

std::unique_ptr<Recording> StepRunner::record(const StepInput& input) {
  stream_.begin_recording();
  try {
    strategy_.step(input);
  } catch (...) {
    // The stream must leave the recording; why that then fails as well is not the cause.
    try {
      stream_.end_recording();
    } catch (const Error&) {
    }
    throw;
  }
  return stream_.end_recording();
}

}  // namespace ddpbench::bench
