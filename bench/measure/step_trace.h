// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepTrace: records the phases and calls of a replica's first timed steps, one by one, for
// --trace. It passes each phase on to the observer that it decorates.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/nn/program.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

class StepTrace final : public PhaseObserver, public nn::LayerObserver {
 public:
  // Traces the first `steps` timed steps of the process's replica of that index. `device`, `writer`
  // and `inner` outlive this. Begin and end of a step are for the writer's thread, all else for the
  // replica's.
  StepTrace(Device& device, launch::RankWriter& writer, std::uint32_t steps, PhaseObserver& inner,
            std::uint32_t replica = 0)
      : device_(device), writer_(writer), steps_(steps), inner_(inner), replica_(replica) {}

  void begin_step(bool timed);
  // Appends the marks to the channel. REQUIRES: the device has finished the step
  // (RecorderOptions::observe_first ensures it).
  void end_step();

  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes& times) override { inner_.bucket(times); }
  void begin_call(std::size_t call, Stream& stream) override;
  void end_call(std::size_t call, Stream& stream) override;

 private:
  struct Mark {
    launch::TraceRecord record;
    bool by_host = false;  // the record has its times; else the events have them
    std::unique_ptr<Event> begin, end;
  };
  // Takes a mark from the pool and returns the mark's index.
  std::size_t add_mark(launch::TraceRecord::Kind kind, std::size_t which);

  Device& device_;
  launch::RankWriter& writer_;
  const std::uint32_t steps_;
  PhaseObserver& inner_;
  const std::uint32_t replica_;
  std::vector<Mark> marks_;  // pool; the first used_ belong to this step
  std::size_t used_ = 0;
  std::array<std::size_t, kPhaseCount> open_{};  // [phase] the index of its mark in this step
  std::size_t open_call_ = 0;
  std::uint32_t timed_step_ = 0;
  bool active_ = false;
};

}  // namespace ddpbench::bench
