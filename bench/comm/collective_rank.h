// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a measurement of collectives: its communicator, its device, registered memory to send
// from and to receive into, the queue of timed calls, and how fast its memory is. And the work of
// the processes of `ddpbench comm`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/math.h"
#include "bench/comm/collective_case.h"
#include "bench/comm/comm_job.h"
#include "bench/rank/rank_devices.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The times of one call, on the device's clock.
struct CallSpan {
  double begin_s = 0, end_s = 0;
  bool late = false;  // the device began it before the host had queued all of it
};

// Queues calls of a collective on one rank, several in flight on an asynchronous device, and times
// each by events of its stream: one after a barrier that is queued like it, so that it begins on
// all ranks at about the same time, and one after the call. The host's time to queue a call must
// not count: the device first copies unused memory, as often as it takes for the host to be ahead
// (nvbench blocks a stream by a kernel for this), and where the most copies do not suffice, fewer
// calls are queued at a time.
class CallQueue {
 public:
  // The size of each of the two buffers that an asynchronous device copies. An H200 reads and
  // writes some 4.5 TB/s: a copy takes it 30 microseconds, and the host queues one in some
  // microseconds.
  static constexpr std::size_t kCopiedBytes = 64 * kMiB;
  static std::array<PlannedBuffer, 2> planned_buffers(Buffer& from, Buffer& to);

  // Both outlive this. Throws DeviceError.
  CallQueue(Device& device, comm::Communicator& world);

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

  void queue_copies();
  void adjust(const std::vector<CallSpan>& spans);
  void calibrate();

  Device& device_;
  comm::Communicator& world_;
  const bool copies_first_;  // queued work is not done when the queueing call returns
  Buffer from_, to_;         // of the copies, like the next
  std::unique_ptr<Event> copies_begin_, copies_end_;
  int copies_ = 4;
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

// Collective. The bandwidth of this rank's core while all ranks do the same (`all_cores`), or while
// the others wait (0 on ranks other than 0): the bound of collectives in shared memory. The best
// window of the communicator's own loops counts. Overwrites the rank's memory. REQUIRES:
// working_set <= twice that memory's bytes.
BandwidthSample measure_bandwidth(CollectiveRank& rank, std::size_t working_set, bool all_cores,
                                  DataType type);

// A RankJob (rank_main.h) whose description is a CommJob: measures all rows in one rank, or in all
// as threads.
void run_comm_ranks(const nlohmann::json& description, const launch::RankEnvironment& environment,
                    launch::RankChannels& channels);

}  // namespace ddpbench::bench
