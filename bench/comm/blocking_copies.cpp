// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/blocking_copies.h"

#include <algorithm>
#include <cmath>

namespace ddpbench::bench {
namespace {

constexpr int kFirstCopies = 4;
// A host queues a copy in some microseconds. An H200, at some 4.5 TB/s read and written, copies
// 32 MiB in 15 of them.
constexpr double kLeastCopy_s = 50e-6;
// Queueing takes the host some milliseconds at most.
constexpr double kMostBusy_s = 5e-3;
// With the calls behind them still less than the thousand or so that a CUDA stream holds; copies of
// kLeastCopy_s come to kMostBusy_s before that.
constexpr int kMostCopies = 128;
constexpr double kMargin = 1.25;

}  // namespace

BlockingCopies::BlockingCopies(Device& device, std::size_t most_bytes)
    : device_(device),
      begin_(device.make_event()),
      end_(device.make_event()),
      copies_(kFirstCopies) {
  const auto stream = device_.make_stream();
  for (std::size_t bytes = kLeastBytes;; bytes *= 2) {
    allocate(bytes);
    device_.copy(*stream, to_.view(), from_.view());  // the first may be slow
    queue(*stream);
    stream->synchronize();
    const double copy_s = (end_->time_s() - begin_->time_s()) / copies_;
    if (copy_s >= kLeastCopy_s || 2 * bytes > most_bytes) return;
  }
}

void BlockingCopies::allocate(std::size_t bytes) {
  from_ = {};
  to_ = {};
  from_ = device_.allocate(bytes, MemoryCategory::workspace);
  to_ = device_.allocate(bytes, MemoryCategory::workspace);
}

void BlockingCopies::queue(Stream& stream) {
  stream.record(*begin_);
  for (int i = 0; i < copies_; ++i) device_.copy(stream, to_.view(), from_.view());
  stream.record(*end_);
}

bool BlockingCopies::cover(double delay_s) {
  const double copy_s = (end_->time_s() - begin_->time_s()) / copies_;
  if (!(copy_s > 0)) return true;
  const int most =
      std::max(1, static_cast<int>(std::min<double>(kMostBusy_s / copy_s, kMostCopies)));
  const bool could_grow = copies_ < most;
  const double wanted = copies_ + std::ceil(kMargin * delay_s / copy_s);
  copies_ = static_cast<int>(std::min<double>(wanted, most));
  return could_grow || !(delay_s > 0);
}

}  // namespace ddpbench::bench
