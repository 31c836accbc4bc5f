// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// IpcSignals: how a stream of one rank waits for a stream of another.
//
// Between processes it uses stream memory operations (cuStreamBatchMemOp) on flags in shared,
// page-locked host memory. The GPU's front end parks a waiting stream and no kernel spins, so
// several processes may share a GPU by time slices. GPUs without a path to each other can reach
// host memory. The host can raise flags to free streams from an abort. A CUDA graph records the
// operations as they are, which is why a flag is up or down and not a count. Interprocess events
// cannot be recorded, and tell nothing before the peer's host has recorded them. The cost: a wait
// and a write each take about a microsecond on PCIe, a flag a peer. So an exchange over 8 ranks
// takes some ten microseconds, and an all-reduce three exchanges a round.
//
// Between threads it uses CUDA events; this host first waits until the peer's host has recorded
// them. Two streams of one process and GPU may share a hardware queue. There a stream that waits
// for a flag could hold up the very work that raises it; so could an allocation, which waits for
// the whole device. A stream that waits for an event waits for queued work only. The cost: a call
// blocks until the peers have made theirs, and it cannot be recorded into a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/operation.h"

namespace ddpbench::comm {

// The flags and offers of one ipc communicator, in host memory that all ranks' processes and GPUs
// share.
class IpcControl {
 public:
  static std::shared_ptr<IpcControl> create(const std::string& name, int size);
  static std::shared_ptr<IpcControl> open(const std::string& handle, int size);
  ~IpcControl();
  IpcControl(const IpcControl&) = delete;
  IpcControl& operator=(const IpcControl&) = delete;

  int size() const noexcept { return size_; }
  std::string handle() const { return memory_.handle(); }

  // The host's view of them.
  std::uint32_t& aborted() const noexcept;
  std::uint32_t& flag(int set, int from, int to) const noexcept;
  // The device's view of them.
  std::uint64_t device_aborted() const noexcept { return device_; }
  std::uint64_t device_flag(int set, int from, int to) const noexcept;
  std::uint64_t device_offer(int set, int from, int to) const noexcept;

 private:
  IpcControl(SharedMemory memory, int size);
  std::size_t number(int set, int from, int to) const noexcept;

  SharedMemory memory_;
  int size_;
  std::uint64_t device_ = 0;  // address of the memory
};

class IpcSignals {
 public:
  virtual ~IpcSignals() = default;
  // signal and await gather what flush() queues on a stream: all signals, then all waits.
  virtual void signal(int set, int peer, std::uint64_t offer) = 0;
  virtual void await(int set, int peer) = 0;
  virtual void flush(cudaStream_t stream, const Operation& operation) = 0;
  // Ends all waits of this rank's streams, once. Streams that are not idle then need it again.
  virtual void release() noexcept = 0;
};

std::unique_ptr<IpcSignals> make_flag_signals(std::shared_ptr<IpcControl> control, int rank);

// The events between the threads of one process, and whether their hosts have recorded them.
class ThreadEvents;
std::shared_ptr<ThreadEvents> make_thread_events(const std::vector<int>& ordinals);

// `look` is called while the host waits, and throws when it must not wait any longer.
using WaitLook = std::function<void(int peer, const Operation& operation, Deadline deadline)>;
std::unique_ptr<IpcSignals> make_event_signals(std::shared_ptr<IpcControl> control,
                                               std::shared_ptr<ThreadEvents> events, int rank,
                                               double timeout_s, WaitLook look);

}  // namespace ddpbench::comm
