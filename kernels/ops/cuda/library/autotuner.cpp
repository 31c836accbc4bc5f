// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/autotuner.h"

#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"

namespace ddpbench::ops::cuda {
namespace {

constexpr int kRounds = 3;    // the shortest counts
constexpr int kLaunches = 8;  // calls in a round

}  // namespace

std::optional<AlgorithmChoice> autotune(AlgorithmCache& cache, const std::string& key,
                                        const Candidates& candidates) {
  if (auto known = cache.find(key); known && candidates.has(*known)) return known;
  try {
    const std::optional<AlgorithmChoice> fastest = candidates.fastest();
    if (fastest) cache.store(key, *fastest);
    return fastest;
  } catch (const NoPlanningMemory&) {
    return candidates.untried();
  } catch (const DeviceError&) {
    // A candidate cannot be recorded, for example. If the GPU itself fails, the next call reports
    // it.
    static_cast<void>(cudaGetLastError());
    return candidates.untried();
  }
}

TuningStream::TuningStream(const Context& context)
    : context_(context), stream_(context.device.make_stream()), native_(context.use(*stream_)) {}

// cuDNN must not keep a stream that no longer exists. Where no candidate ran, the memory that is
// freed next may still be filled.
TuningStream::~TuningStream() {
  static_cast<void>(cudnnSetStream(context_.cudnn, nullptr));
  static_cast<void>(cudaStreamSynchronize(native_));
}

void TuningStream::fill(DataType type, const PlanningMemory& memory, std::int64_t count,
                        const std::string& where) {
  if (memory.data() == nullptr) return;
  check(fill_with_pattern(type, memory.data(), element_index(count, where), native()), where,
        "filling memory for autotuning");
}

double TuningStream::recorded_s(const std::function<void()>& call) {
  call();  // loads the kernels, which a recording cannot do
  stream().synchronize();
  const std::unique_ptr<Recording> recording = record(call);
  const auto begin = context_.device.make_event(), end = context_.device.make_event();
  double shortest = 0;
  for (int round = -1; round < kRounds; ++round) {  // the first one warms up
    stream().record(*begin);
    recording->replay(stream());
    stream().record(*end);
    stream().synchronize();
    const double time = (end->time_s() - begin->time_s()) / kLaunches;
    if (round <= 0 || time < shortest) shortest = time;
  }
  return shortest;
}

std::unique_ptr<Recording> TuningStream::record(const std::function<void()>& call) {
  stream().begin_recording();
  try {
    for (int i = 0; i < kLaunches; ++i) call();
  } catch (...) {
    // A stream that still records can be neither synchronized nor destroyed.
    try {
      stream().end_recording();
    } catch (const Error&) {  // repeats the call's error
    }
    throw;
  }
  return stream().end_recording();
}

}  // namespace ddpbench::ops::cuda
