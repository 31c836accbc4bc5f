// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How long work takes as a step runs it: recorded and replayed.
#pragma once

#include <functional>
#include <memory>

#include "kernels/ops/cuda/search_stream.h"

namespace ddpbench::ops::cuda {

class RecordedTrial {
 public:
  explicit RecordedTrial(const Context& context) : context_(context), stream_(context) {}
  Stream& stream() { return stream_.stream(); }
  cudaStream_t native() const { return stream_.native(); }

  // Seconds of one call, which queues its work on the stream. Throws DeviceError where that cannot
  // be recorded.
  double time_s(const std::function<void()>& call);
  // The same by one call that is not recorded, after one that nothing is measured of: cheap, and
  // with the gap of a launch in it.
  double once_s(const std::function<void()>& call);

 private:
  std::unique_ptr<Recording> record(const std::function<void()>& call);

  const Context& context_;
  SearchStream stream_;
};

}  // namespace ddpbench::ops::cuda
