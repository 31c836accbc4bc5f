// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a measurement of collectives: its communicator, its device, registered memory to send
// from and to receive into, the queue of timed calls, and how fast its memory is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/math.h"
#include "bench/comm/collective_case.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

// Copies of unused memory that keep a device busy while the host queues the timed work behind them,
// which then does not wait for the host. (nvbench blocks a stream by a kernel for this.)
class BlockingCopies {
 public:
  // Each of the two buffers has this size. An H200 reads and writes some 4.5 TB/s: it copies this
  // in 30 microseconds, and the host queues a copy in some microseconds.
  static constexpr std::size_t kBytes = 64 * kMiB;

  static std::array<PlannedBuffer, 2> planned_buffers(Buffer& from, Buffer& to);

  // `device` is asynchronous and outlives this. Throws DeviceError.
  explicit BlockingCopies(Device& device);

  // Queues the copies in front of the work that comes next on `stream`.
  void queue(Stream& stream);
  // To be called when the work of queue() is done: takes so many more copies next time that they
  // last `delay_s` longer. Returns false when the limit on copies leaves the delay uncovered.
  bool cover(double delay_s);

 private:
  Device& device_;
  Buffer from_, to_;
  std::unique_ptr<Event> begin_, end_;
  int copies_;
};

// The times of one call, on the device's clock.
struct CallSpan {
  double begin_s = 0, end_s = 0;
  bool late = false;  // the device began it before the host had queued all of it
};

// Queues calls of a collective on one rank, several in flight on an asynchronous device, and times
// each by events of its stream: one after a barrier that is queued like it, so that it begins on
// all ranks at about the same time, and one after the call. The host's time to queue a call must
// not count: the device first gets copies of unused memory, as many as it takes for the host to be
// ahead, and where the most do not suffice, fewer calls are queued at a time.
class CallQueue {
 public:
  // Both outlive this. `blocking`: null where queued work is done when the queueing call returns.
  CallQueue(Device& device, comm::Communicator& world, std::unique_ptr<BlockingCopies> blocking);

  // Call it before calls of another kind or size. Calibrates the device's clock to the host's, and
  // resets how many calls are queued at a time. REQUIRES: no calls are in flight.
  void begin_row();
  // Queues a barrier and the call.
  void add(const CollectiveCase& collective, const CollectiveMemory& memory);
  // Whether as many calls are in flight as should be.
  bool full() const { return added_ >= depth_; }
  // Blocks until all calls are done; returns their times in the order of add(). Throws CommError.
  // Calibrates the drifting clocks now and then.
  std::vector<CallSpan> finish();

 private:
  // Enough that the device rarely waits, and few enough for what a stream holds.
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
  std::unique_ptr<BlockingCopies> blocking_;
  std::unique_ptr<Stream> stream_;
  std::vector<Call> calls_;  // the first added_ count
  std::size_t added_ = 0;
  std::size_t depth_ = 1;  // number of calls queued at a time
  double calibrated_s_ = 0;
};

class CollectiveRank {
 public:
  // Collective. The calling thread leads the device. `bytes`: those of the largest call's whole.
  // `sharers`: the ranks that share this device's memory. Throws ConfigError before it allocates
  // when they need more memory than the device has free, with a table and advice.
  CollectiveRank(std::unique_ptr<comm::Communicator> world, std::unique_ptr<Device> device,
                 std::size_t bytes, int sharers = 1);

  comm::Communicator& world() { return *world_; }
  Device& device() { return *device_; }
  // Timed calls on memory().
  CallQueue& calls() { return *calls_; }
  CollectiveMemory memory(std::size_t count, DataType type, comm::ReduceOp op) const;

  // Blocks until all ranks have come.
  void barrier();
  // Runs the collective once, after a barrier. REQUIRES: no calls are in flight.
  CallSpan run(const CollectiveCase& collective, const CollectiveMemory& memory);
  // Runs the collective once on fresh input; returns the wrong elements of this rank. Leaves zeros
  // behind: their sums stay zeros. REQUIRES: no calls are in flight.
  std::size_t verify(const CollectiveCase& collective, const CollectiveMemory& memory);

 private:
  void check_memory(std::size_t room, int sharers);
  std::array<PlannedBuffer, 2> planned_buffers(std::size_t room);
  void make_buffers(std::size_t room);
  // Calls `use` with each piece of a host copy of the device's `count` elements and the number of
  // its first element. `read` reads the piece from the device before, `write` writes it back after.
  enum class Access : std::uint8_t { read, write };
  template <typename Use>
  void visit(std::byte* data, std::size_t count, DataType type, Access access, Use&& use);

  std::unique_ptr<Device> device_;
  Buffer in_, out_;  // outlive the communicator
  std::unique_ptr<Stream> copies_;
  Buffer staging_;  // empty where the host reads the device's memory itself
  std::unique_ptr<comm::Communicator> world_;
  std::unique_ptr<CallQueue> calls_;
};

// Bandwidth, which counts bytes read and bytes written.
struct BandwidthSample {
  std::size_t working_set_bytes = 0;
  bool all_cores = false;  // all ranks at once; else rank 0 alone
  double copy_gb_per_s = 0, reduce_gb_per_s = 0;
};

// Collective. The bandwidth of this rank's core while all ranks do the same (`all_cores`), or while
// the others wait (0 on ranks other than 0): the bound of collectives in shared memory. The best
// window of the communicator's own loops counts. Overwrites the rank's memory. REQUIRES:
// working_set <= twice that memory's bytes.
BandwidthSample measure_bandwidth(CollectiveRank& rank, std::size_t working_set, bool all_cores,
                                  DataType type);

}  // namespace ddpbench::bench
