// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/memory_bandwidth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/math.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::bench {
namespace {

constexpr int kWindows = 3;
constexpr double kWindow_s = 2e-3;
// The most copies queued together. With those that keep the device busy, they stay below the
// thousand or so that a CUDA stream holds; beyond that the host waits for the device.
constexpr std::size_t kMostPasses = 1 << 9;
// A copy counts if it lasts at least this many times as long as its launch.
constexpr double kLeastLaunches = 4;
constexpr std::size_t kTinyBytes = 64;
constexpr const char* kTooSmall = "too small: a copy's time is its launch";
constexpr const char* kTooLittleMemory =
    "the GPU has too little memory left to copy as much as ranks touch";
constexpr std::size_t kBytesPerLook = 256 << 10;  // between two looks at the clock
// Below this all data is in some cache, where non-temporal stores only lose.
constexpr std::size_t kLeastStreaming = kMiB;

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

// Copies one half of a working set of the device to the other.
class DeviceCopies {
 public:
  DeviceCopies(CollectiveRank& rank, BufferView to, BufferView from)
      : device_(rank.device()),
        blocking_(rank.calls().blocking()),
        stream_(device_.make_stream()),
        begin_(device_.make_event()),
        end_(device_.make_event()),
        to_(to),
        from_(from) {}

  // The time of one copy of the first `bytes`: the device's best, and the host's to queue it.
  struct Seconds {
    double copy_s = HUGE_VAL, queue_s = HUGE_VAL;
  };
  Seconds best(std::size_t bytes) {
    std::size_t passes = 1;
    for (double seconds = 0; seconds < kWindow_s && passes < kMostPasses; passes *= 2) {
      queue(bytes, passes);
      seconds = end_->time_s() - begin_->time_s();
    }
    Seconds best;
    for (int window = 0; window < kWindows; ++window) {
      blocking_.queue(*stream_);
      const double queued_s = queue(bytes, passes);
      const double seconds = end_->time_s() - begin_->time_s();
      const auto count = static_cast<double>(passes);
      if (seconds > 0) best.copy_s = std::min(best.copy_s, seconds / count);
      best.queue_s = std::min(best.queue_s, queued_s / count);
      blocking_.cover(std::max(0.0, queue_end_s_ - begin_->time_s()));
    }
    return best;
  }

 private:
  // Blocks until the copies are done; returns the seconds that the host took to queue them.
  double queue(std::size_t bytes, std::size_t passes) {
    stream_->record(*begin_);
    const double begin_s = device_.now_s();
    for (std::size_t i = 0; i < passes; ++i) {
      device_.copy(*stream_, {to_.data, bytes}, {from_.data, bytes});
    }
    stream_->record(*end_);
    queue_end_s_ = device_.now_s();
    stream_->synchronize();
    return queue_end_s_ - begin_s;
  }

  Device& device_;
  BlockingCopies& blocking_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
  BufferView to_, from_;
  double queue_end_s_ = 0;  // of the last queue()
};

void copy_halves(CollectiveRank& rank, BufferView to, BufferView from, BandwidthSample& sample) {
  DeviceCopies copies(rank, to, from);
  const auto tiny = copies.best(std::min(kTinyBytes, to.bytes));
  const auto whole = copies.best(to.bytes);
  if (whole.copy_s < kLeastLaunches * std::max(tiny.copy_s, whole.queue_s)) {
    sample.missing = kTooSmall;
  } else if (std::isfinite(whole.copy_s)) {
    sample.copy_gb_per_s = 2 * static_cast<double>(to.bytes) / whole.copy_s / 1e9;
  }
}

// Uses the rank's memory, or memory of its own where that is too small.
void measure_copies(CollectiveRank& rank, std::size_t half, BandwidthSample& sample) {
  if (half <= rank.room()) {
    const CollectiveMemory memory = rank.memory(half, DataType::uint8, comm::ReduceOp::maximum);
    return copy_halves(rank, {memory.out, half}, {memory.in, half}, sample);
  }
  Device& device = rank.device();
  Buffer to, from;
  const std::array<PlannedBuffer, 2> planned = {
      {{&to, MemoryCategory::workspace, half}, {&from, MemoryCategory::workspace, half}}};
  MemoryNeeds needs(device);
  needs.add(planned);
  if (needs.added_bytes() > device.free_bytes().value_or(needs.added_bytes())) {
    sample.missing = kTooLittleMemory;
    return;
  }
  allocate(device, planned);
  copy_halves(rank, to.view(), from.view(), sample);
}

}  // namespace

BandwidthSample measure_copy_bandwidth(CollectiveRank& rank, std::size_t working_set) {
  BandwidthSample sample{working_set, false, 0, 0, ""};
  rank.barrier();
  if (rank.world().rank() == 0) {
    measure_copies(rank, std::max<std::size_t>(1, working_set / 2), sample);
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
  BandwidthSample sample{working_set, all_cores, 0, 0, ""};
  for (const comm::WriteMode mode : {comm::WriteMode::cached, comm::WriteMode::non_temporal}) {
    if (mode == comm::WriteMode::non_temporal && working_set < kLeastStreaming) continue;
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
