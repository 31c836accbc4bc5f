// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/memory_bandwidth.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "parallel/comm/reduce_kernels.h"

namespace ddpbench::bench {
namespace {

constexpr int kWindows = 3;
constexpr double kWindow_s = 2e-3;
constexpr std::size_t kMostPasses = 1 << 10;      // of copies that are queued together
constexpr std::size_t kBytesPerLook = 256 << 10;  // between two looks at the clock
// Below this everything is in some cache, where streaming stores only lose.
constexpr std::size_t kLeastStreaming = 1 << 20;

// GB/s of `pass`, which reads and writes `bytes`; 0 where this rank only waits for the others.
template <typename Pass>
double best_window(CollectiveRank& rank, bool active, std::size_t bytes, Pass&& pass) {
  const std::size_t batch = std::max<std::size_t>(1, kBytesPerLook / bytes);
  double best = 0;
  if (active) pass();  // touches the pages
  for (int window = 0; window < kWindows; ++window) {
    rank.barrier();
    if (!active) continue;
    const double begin_s = rank.device().now_s();
    double end_s = begin_s;
    std::size_t passes = 0;
    while (end_s - begin_s < kWindow_s) {
      for (std::size_t i = 0; i < batch; ++i) pass();
      passes += batch;
      end_s = rank.device().now_s();
    }
    best = std::max(best, static_cast<double>(passes * bytes) / (end_s - begin_s));
  }
  return best / 1e9;
}

// Seconds of `passes` copies that were queued together.
double queued_copies_s(Device& device, Stream& stream, BufferView to, BufferView from,
                       std::size_t passes) {
  const auto begin = device.make_event(), end = device.make_event();
  stream.record(*begin);
  for (std::size_t i = 0; i < passes; ++i) device.copy(stream, to, from);
  stream.record(*end);
  stream.synchronize();
  return end->time_s() - begin->time_s();
}

}  // namespace

BandwidthSample measure_copy_bandwidth(CollectiveRank& rank, std::size_t working_set) {
  BandwidthSample sample{working_set, false, 0, 0};
  rank.barrier();
  if (rank.world().rank() == 0) {
    const std::size_t half = std::max<std::size_t>(1, working_set / 2);
    const CollectiveMemory memory = rank.memory(half, DataType::uint8, comm::ReduceOp::maximum);
    const BufferView to{memory.out, half}, from{memory.in, half};
    Device& device = rank.device();
    const auto stream = device.make_stream();
    std::size_t passes = 1;
    for (double seconds = 0; seconds < kWindow_s && passes < kMostPasses; passes *= 2) {
      seconds = queued_copies_s(device, *stream, to, from, passes);
    }
    for (int window = 0; window < kWindows; ++window) {
      const double seconds = queued_copies_s(device, *stream, to, from, passes);
      if (!(seconds > 0)) continue;
      sample.copy_gb_per_s =
          std::max(sample.copy_gb_per_s, static_cast<double>(passes * 2 * half) / seconds / 1e9);
    }
  }
  rank.barrier();
  return sample;
}

BandwidthSample measure_bandwidth(CollectiveRank& rank, std::size_t working_set, bool all_cores,
                                  DataType type) {
  const bool active = all_cores || rank.world().rank() == 0;
  const std::size_t count = std::max<std::size_t>(1, working_set / 2 / size_of(type));
  const std::size_t half = count * size_of(type);
  const CollectiveMemory memory = rank.memory(count, type, comm::ReduceOp::maximum);
  const std::array<const std::byte*, 2> sources = {memory.out, memory.in};
  std::memset(memory.in, 0, half);
  std::memset(memory.out, 0, half);
  BandwidthSample sample{working_set, all_cores, 0, 0};
  for (const comm::StoreMode mode : {comm::StoreMode::cached, comm::StoreMode::streaming}) {
    if (mode == comm::StoreMode::streaming && working_set < kLeastStreaming) continue;
    sample.copy_gb_per_s = std::max(sample.copy_gb_per_s, best_window(rank, active, 2 * half, [&] {
                                      comm::copy_bytes(memory.out, memory.in, half, mode);
                                    }));
    sample.reduce_gb_per_s =
        std::max(sample.reduce_gb_per_s, best_window(rank, active, 3 * half, [&] {
                   comm::reduce_sources(memory.out, sources, count, {.type = type}, mode);
                 }));
  }
  return sample;
}

}  // namespace ddpbench::bench
