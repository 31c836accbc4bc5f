// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// BusyCopies: copies of memory that nobody needs, which keep a device busy while the host queues
// what is to be timed behind them. What is timed then does not wait for the host.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/runtime/device.h"

namespace ddpbench::bench {

class BusyCopies {
 public:
  // Of the two buffers that are copied, each, at least.
  static constexpr std::size_t kLeastBytes = std::size_t{32} << 20;

  // `device`, which works on its own, outlives it. Times copies of kLeastBytes and of twice as many
  // each time, up to `most_bytes`, until one takes the device several times as long as the host,
  // and keeps two buffers of that size. Blocks. Throws DeviceError.
  BusyCopies(Device& device, std::size_t most_bytes);

  // The copies, in front of what comes next on `stream`.
  void queue(Stream& stream);
  // After what queue() queued is done: so many more copies next time as take `delay_s`. False when
  // they are as many as may be already, and the delay is not covered.
  bool cover(double delay_s);

  std::size_t bytes() const { return from_.bytes(); }

 private:
  void allocate(std::size_t bytes);

  Device& device_;
  Buffer from_, to_;
  std::unique_ptr<Event> begin_, end_;
  int copies_;
};

}  // namespace ddpbench::bench
