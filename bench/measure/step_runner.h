// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepRunner: runs a rank's steps. Where the device can, it records them once and replays them (a
// CUDA graph): a step then costs the host one call.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "bench/measure/step_recorder.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// All pointers but `world` are set. Their targets outlive the runner.
struct StepRunnerOptions {
  Strategy* strategy = nullptr;
  Stream* stream = nullptr;
  StepRecorder* recorder = nullptr;
  comm::Communicator* world = nullptr;  // of the strategy; null for one process
  // The stream can record, and each step queues the same work for the same input.
  bool records = false;
};

class StepRunner {
 public:
  // Must be destroyed before the communicator, which waits for recordings that hold its calls.
  explicit StepRunner(const StepRunnerOptions& options) : options_(options) {}

  // Runs one step, between the recorder's begin_step and end_step. The first step is queued call by
  // call. Once a step was recorded, all steps are replays, so that a strategy can report what it
  // knows about the recording.
  void run(const StepInput& input);

 private:
  // What a recording is for: the address of the batch, and whether the step's phases are marked.
  using Key = std::pair<const float*, bool>;

  void record_both(const StepInput& input);
  std::unique_ptr<Recording> record(const StepInput& input);

  StepRunnerOptions options_;
  bool warm_ = false;  // a step has run: libraries have done their first-use work
  std::map<Key, std::unique_ptr<Recording>> recordings_;
};

}  // namespace ddpbench::bench
