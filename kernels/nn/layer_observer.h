// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pass over a network tells while it queues its work: which operation runs, as PhaseObserver
// tells phases, and which gradients are complete.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/runtime/device.h"

namespace ddpbench::nn {

class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  // Around every operation that a pass queues, one after the other on `stream`, on the thread that
  // runs the pass. `call` counts through Graph::call_names().
  virtual void begin_call(std::size_t call, Stream& stream) = 0;
  virtual void end_call(std::size_t call, Stream& stream) = 0;
};

// Called when the work that produces a parameter's final gradient has been queued: once a parameter
// and backward pass, in parameter index order as far as the network is a chain.
using GradientReady = std::function<void(std::size_t parameter)>;

}  // namespace ddpbench::nn
