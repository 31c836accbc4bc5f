// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/step_runner.h"

#include "kernels/runtime/error.h"

namespace ddpbench::bench {

void StepRunner::run(BatchSource& source, const StepInput& input) {
  if (!records_ || !warm_ || recorder_.tracing()) {
    queue(source, input);
    warm_ = true;
    return;
  }
  std::unique_ptr<Recording>& recording = recordings_[{input.images, recorder_.observing()}];
  if (!recording) {
    recording = record(source, input);
    if (recorder_.observing()) recorder_.keep_marks();
  } else if (recorder_.observing()) {
    recorder_.repeat_marks();
  }
  recording->replay(stream_);
}

void StepRunner::queue(BatchSource& source, const StepInput& input) {
  source.queue_work(stream_);
  strategy_.step(input);
}

std::unique_ptr<Recording> StepRunner::record(BatchSource& source, const StepInput& input) {
  stream_.begin_recording();
  try {
    queue(source, input);
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
