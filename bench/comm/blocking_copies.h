// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// BlockingCopies: copies of unused memory that keep a device busy while the host queues, behind
// them, what is to be timed. What is timed then does not wait for the host. (nvbench blocks a
// stream by a kernel for the same purpose.)
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/runtime/device.h"

namespace ddpbench::bench {

class BlockingCopies {
 public:
  // The least size of each of the two buffers.
  static constexpr std::size_t kLeastBytes = std::size_t{32} << 20;

  // `device`, which works on its own, outlives it. Times copies of kLeastBytes and of twice as many
  // each time, up to `most_bytes`, until one takes the device several times as long as the host,
  // and keeps two buffers of that size. Blocks. Throws DeviceError.
  BlockingCopies(Device& device, std::size_t most_bytes);

  // Queues the copies, in front of what comes next on `stream`.
  void queue(Stream& stream);
  // When what queue() queued is done: takes more copies next time, as many as last `delay_s`
  // longer. Returns false when there may be no more of them, so that the delay is not covered.
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
