// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// LayerRecorder: times the calls of a graph in traced steps. Between those it ignores them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/nn/layer_observer.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

class LayerRecorder final : public nn::LayerObserver {
 public:
  explicit LayerRecorder(Device& device) : device_(device) {}

  // Forgets the calls of the step before; takes up those that follow when `active`.
  void begin_step(bool active);
  // The step's calls. REQUIRES: the stream that they ran on was synchronized.
  void append_to(launch::RankWriter& writer, std::uint32_t step) const;

  void begin_call(std::size_t call, Stream& stream) override;
  void end_call(std::size_t call, Stream& stream) override;

 private:
  struct Mark {
    std::size_t call = 0;
    std::unique_ptr<Event> begin, end;
  };
  Device& device_;
  std::vector<Mark> marks_;  // pool; the first used_ belong to this step
  std::size_t used_ = 0;
  bool active_ = false;
};

}  // namespace ddpbench::bench
