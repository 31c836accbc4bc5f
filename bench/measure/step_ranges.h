// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepRanges: names phases and layers to a profiler while they are queued. It passes each call on
// to the observers that record it.
//
// A profiler relates device work to the range that was open when the work was queued. The work of a
// recording is queued once, when it is recorded: its layers show there and in no replay.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernels/nn/program.h"
#include "kernels/runtime/phase.h"
#include "kernels/runtime/range_marker.h"

namespace ddpbench::bench {

class StepRanges final : public PhaseObserver, public nn::LayerObserver {
 public:
  // Both must outlive this. It is useful only where marker.is_heard().
  StepRanges(RangeMarker& marker, PhaseObserver& phases);

  // Call it before the first call. `names`: those of the observed graph's calls
  // (Graph::call_names). `also`: another observer of the calls; may be null.
  void name_calls(const std::vector<std::string>& names, nn::LayerObserver* also);

  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes& times) override;
  void begin_call(std::size_t call, Stream& stream) override;
  void end_call(std::size_t call, Stream& stream) override;

 private:
  RangeMarker& marker_;
  PhaseObserver& phases_;
  nn::LayerObserver* layers_ = nullptr;
  std::array<std::size_t, kPhaseCount> phase_names_{};
  std::vector<std::size_t> call_names_;
};

}  // namespace ddpbench::bench
