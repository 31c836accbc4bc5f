// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How long work takes as a step runs it: recorded and replayed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernels/ops/cuda/library/search_stream.h"

namespace ddpbench::ops::cuda {

class RecordedTrial {
 public:
  explicit RecordedTrial(const Context& context) : context_(context), stream_(context) {}
  Stream& stream() { return stream_.stream(); }
  cudaStream_t native() const { return stream_.native(); }

  // With values as a step's, which are no zeros: power, and with it the clock, depends on them.
  // Null memory is left alone. `where` begins what errors say.
  void fill(DataType type, const PlanningMemory& memory, std::int64_t count,
            const std::string& where);
  // Seconds of one call, which queues its work on the stream. Throws DeviceError where that cannot
  // be recorded.
  double time_s(const std::function<void()>& call);
  // The same by one call that is not recorded: cheap, and with the gap of a launch in it. REQUIRES:
  // it was queued before, which loads its kernels.
  double once_s(const std::function<void()>& call);

 private:
  std::unique_ptr<Recording> record(const std::function<void()>& call);

  const Context& context_;
  SearchStream stream_;
};

}  // namespace ddpbench::ops::cuda
