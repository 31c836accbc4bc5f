// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/step_ranges.h"

namespace ddpbench::bench {

StepRanges::StepRanges(RangeMarker& marker, PhaseObserver& phases)
    : marker_(marker), phases_(phases) {
  for (std::size_t p = 0; p < kPhaseCount; ++p) {
    phase_names_[p] = marker_.add_name(std::string(to_string(static_cast<Phase>(p))));
  }
}

void StepRanges::name_calls(const std::vector<std::string>& names, nn::LayerObserver* also) {
  layers_ = also;
  call_names_.clear();
  for (const std::string& name : names) call_names_.push_back(marker_.add_name(name));
}

// The range is the outer of the two, so that it shows the cost of recording, too.
void StepRanges::begin(Phase phase, Stream& stream) {
  marker_.push(phase_names_[static_cast<std::size_t>(phase)]);
  phases_.begin(phase, stream);
}

void StepRanges::end(Phase phase, Stream& stream) {
  phases_.end(phase, stream);
  marker_.pop();
}

void StepRanges::bucket(const BucketTimes& times) { phases_.bucket(times); }

void StepRanges::begin_call(std::size_t call, Stream& stream) {
  marker_.push(call_names_.at(call));
  if (layers_ != nullptr) layers_->begin_call(call, stream);
}

void StepRanges::end_call(std::size_t call, Stream& stream) {
  if (layers_ != nullptr) layers_->end_call(call, stream);
  marker_.pop();
}

}  // namespace ddpbench::bench
