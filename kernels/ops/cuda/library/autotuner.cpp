// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/autotuner.h"

#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"

namespace ddpbench::ops::cuda {
namespace {

constexpr int kRounds = 3;    // of which the shortest counts
constexpr int kLaunches = 8;  // a round

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
    // The candidate cannot be recorded, for example. If it is the GPU that fails, the next call
    // says so.
    if (candidates.must_run) throw;
    static_cast<void>(cudaGetLastError());
    return candidates.untried();
  }
}

TuningStream::TuningStream(const Context& context)
    : context_(context), stream_(context.device.make_stream()), native_(context.use(*stream_)) {}

// cuDNN may not keep a stream that is gone.
TuningStream::~TuningStream() { static_cast<void>(cudnnSetStream(context_.cudnn, nullptr)); }

void TuningStream::fill(DataType type, const PlanningMemory& memory, std::int64_t count,
                        const std::string& where) {
  if (memory.data() == nullptr) return;
  check(fill_with_pattern(type, memory.data(), element_index(count, where), native()), where,
        "filling memory for autotuning");
}

double TuningStream::recorded_s(const std::function<void()>& call) {
  call();  // loads the kernels, which a recording cannot
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

double TuningStream::once_s(const std::function<void()>& call) {
  const auto begin = context_.device.make_event(), end = context_.device.make_event();
  stream().record(*begin);
  call();
  stream().record(*end);
  stream().synchronize();
  return end->time_s() - begin->time_s();
}

std::unique_ptr<Recording> TuningStream::record(const std::function<void()>& call) {
  stream().begin_recording();
  try {
    for (int i = 0; i < kLaunches; ++i) call();
  } catch (...) {
    // A stream that still records can neither be waited for nor given up.
    try {
      stream().end_recording();
    } catch (const Error&) {  // says only what the call's error says
    }
    throw;
  }
  return stream().end_recording();
}

}  // namespace ddpbench::ops::cuda
