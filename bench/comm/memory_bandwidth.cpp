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

}  // namespace

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
