// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Who wants to know which operation of a network runs, as PhaseObserver does for phases.
#pragma once

#include <cstddef>

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

}  // namespace ddpbench::nn
