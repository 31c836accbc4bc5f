// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pass over a network reports while it queues its work: the operations that run, as
// PhaseObserver reports phases, and the gradients that are complete.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/runtime/device.h"

namespace ddpbench::nn {

class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  // Called around every operation that a pass queues, one after the other on `stream`, on the
  // thread that runs the pass. `call` is an index of Graph::call_names().
  virtual void begin_call(std::size_t call, Stream& stream) = 0;
  virtual void end_call(std::size_t call, Stream& stream) = 0;
};

// Called when the work that makes a parameter's final gradient is queued: once for each parameter
// and backward pass, in parameter index order as far as the network is a chain.
using GradientReady = std::function<void(std::size_t parameter)>;

}  // namespace ddpbench::nn
