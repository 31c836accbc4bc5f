// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CallQueue: calls of a collective on one rank, timed one by one by events of the stream that they
// follow, of which several are under way where the device works on its own.
//
// Each call comes after a barrier, which is queued like it, so that a call begins on all ranks at
// about the same time; the events stand between the two and after the call. Looked at only when all
// is done, they tell how long the device took. What the host needs to queue a call counts only when
// the device had to wait for it. To prevent that, the device first gets copies of memory that
// nobody needs, whose number is found while calls are queued: as many as it takes for the host to
// be ahead. Where as many as may be do not suffice, fewer calls are queued at a time. Short
// collectives would otherwise show how fast CUDA takes orders, which is what
// nccl-tests, whose calls follow each other without a pause, then shows.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/comm/collective_case.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

// BlockingCopies: copies of unused memory that keep a device busy while the host queues, behind
// them, what is to be timed. What is timed then does not wait for the host. (nvbench blocks a
// stream by a kernel for the same purpose.)
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

// One call, in the device's clock.
struct CallSpan {
  double begin_s = 0, end_s = 0;
  bool late = false;  // the device began it before the host had queued all of it
};

class CallQueue {
 public:
  // Both outlive it. `busy`: null where whatever is queued is done when the host goes on.
  CallQueue(Device& device, comm::Communicator& world, std::unique_ptr<BlockingCopies> busy);

  // Before calls of another kind or size: brings the clocks of host and device together, and queues
  // as many calls at a time as should be. REQUIRES: no calls are under way.
  void begin_row();
  // A barrier and the call.
  void add(const CollectiveCase& collective, const CollectiveMemory& memory);
  // As many are under way as should be.
  bool full() const { return added_ >= depth_; }
  // Blocks until all are done; their times in the order of add(). Throws CommError. Now and then it
  // brings the clocks, which drift apart, together again.
  std::vector<CallSpan> finish();

  // What keeps the device busy. REQUIRES: there is something.
  BlockingCopies& busy() { return *busy_; }

 private:
  // Enough that the host is rarely waited for, and few enough for what a stream holds.
  static constexpr std::size_t kDepth = 10;
  struct Call {
    std::unique_ptr<Event> begin, end;
    IssuedCollective issued;
    double queued_s = 0;
  };

  void adjust(const std::vector<CallSpan>& spans);
  void calibrate();

  Device& device_;
  comm::Communicator& world_;
  std::unique_ptr<BlockingCopies> busy_;
  std::unique_ptr<Stream> stream_;
  std::vector<Call> calls_;  // those of added_ count
  std::size_t added_ = 0;
  std::size_t depth_ = 1;  // that are queued at a time
  double calibrated_s_ = 0;
};

}  // namespace ddpbench::bench
