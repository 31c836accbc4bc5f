// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The autotuner: takes the fastest of a library's algorithms for the same work. It tries them on
// memory and data of its own and remembers the choice in the algorithm cache.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/ops/cuda/library/context.h"

namespace ddpbench::ops::cuda {

// The candidates of one choice.
struct Candidates {
  // Whether a remembered choice is still one of them. May bring the choice up to date.
  std::function<bool(AlgorithmChoice&)> has;
  // The fastest, by trial; nullopt: none ran. Throws NoPlanningMemory, or DeviceError.
  std::function<std::optional<AlgorithmChoice>()> fastest;
  // The candidate that is taken when there can be no trial; nullopt: none.
  std::function<std::optional<AlgorithmChoice>()> untried;
};

// Returns the choice remembered under `key`, else the fastest, and remembers it. Else returns the
// untried one, unremembered: with memory for a trial, the next process tries. nullopt: none ran.
std::optional<AlgorithmChoice> autotune(AlgorithmCache& cache, const std::string& key,
                                        const Candidates& candidates);

// The stream on which candidates are tried.
class TuningStream {
 public:
  explicit TuningStream(const Context& context);
  ~TuningStream();
  TuningStream(const TuningStream&) = delete;
  TuningStream& operator=(const TuningStream&) = delete;

  Stream& stream() { return *stream_; }
  cudaStream_t native() const { return native_; }

  // Fills memory with values like those of a step, not with zeros: power, and so the clock rate,
  // depends on them. Null memory is left alone. `where` begins error messages.
  void fill(DataType type, const PlanningMemory& memory, std::int64_t count,
            const std::string& where);
  // The seconds of one call, which queues its work on the stream. As in a step, the call is
  // recorded and replayed. Throws DeviceError where it cannot be recorded.
  double recorded_s(const std::function<void()>& call);

 private:
  std::unique_ptr<Recording> record(const std::function<void()>& call);

  const Context& context_;
  std::unique_ptr<Stream> stream_;
  cudaStream_t native_;
};

}  // namespace ddpbench::ops::cuda
