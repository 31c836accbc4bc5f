// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Autotuning: of the candidates that can do the same work the fastest is taken, by trials on memory
// and data of their own, and remembered in the algorithm cache.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/ops/cuda/library/context.h"

namespace ddpbench::ops::cuda {

// What there is to choose from.
struct Candidates {
  // Whether a remembered choice is still one of them. May bring the choice up to date.
  std::function<bool(AlgorithmChoice&)> has;
  // The fastest, by trial; nullopt: none ran. Throws NoPlanningMemory, or DeviceError where a
  // candidate cannot be run or recorded.
  std::function<std::optional<AlgorithmChoice>()> fastest;
  // The one that is taken where there can be no trial; nullopt: none.
  std::function<std::optional<AlgorithmChoice>()> untried;
  // Whether a DeviceError of a trial is thrown on, because no candidate is known to run.
  bool must_run = false;
};

// The choice that is remembered under `key`, else the fastest, which is remembered then, else the
// untried one, which is not: with memory for a trial, the next process tries. nullopt: none ran.
std::optional<AlgorithmChoice> autotune(AlgorithmCache& cache, const std::string& key,
                                        const Candidates& candidates);

// The stream that candidates are tried on, and how long they take there.
class TuningStream {
 public:
  explicit TuningStream(const Context& context);
  ~TuningStream();
  TuningStream(const TuningStream&) = delete;
  TuningStream& operator=(const TuningStream&) = delete;

  Stream& stream() { return *stream_; }
  cudaStream_t native() const { return native_; }

  // Fills memory with values as a step's, which are not zeros: power, and with it the clock,
  // depends on them. Null memory is left alone. `where` begins what errors say.
  void fill(DataType type, const PlanningMemory& memory, std::int64_t count,
            const std::string& where);
  // Seconds of one call, which queues its work on the stream, as a step runs it: recorded and
  // replayed. Throws DeviceError where the call cannot be recorded.
  double recorded_s(const std::function<void()>& call);
  // Seconds of one call that is not recorded: cheap, and with the gap of a launch in it. REQUIRES:
  // the call was queued before, which loads its kernels.
  double once_s(const std::function<void()>& call);

 private:
  std::unique_ptr<Recording> record(const std::function<void()>& call);

  const Context& context_;
  std::unique_ptr<Stream> stream_;
  cudaStream_t native_;
};

}  // namespace ddpbench::ops::cuda
