// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "ipc" backend, for ranks on the GPUs of one host: executes the steps of ipc_plan.h on
// streams.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/cuda/cuda_communicator.h"
#include "parallel/comm/cuda/ipc/ipc_kernels.h"
#include "parallel/comm/cuda/ipc/ipc_memory.h"
#include "parallel/comm/cuda/ipc/ipc_plan.h"
#include "parallel/comm/cuda/ipc/ipc_signals.h"

namespace ddpbench::comm {

// What the ranks of one ipc communicator share.
struct IpcMeeting {
  std::shared_ptr<IpcControl> control;
  std::shared_ptr<ThreadEvents> events;  // null between processes
};

// Those with a board are collective. `ordinals` are the ranks' GPUs. Throws CommError,
// UnavailableError when one GPU cannot reach another's memory.
IpcMeeting meet_processes(PeerBoard& board, const std::string& name, int rank,
                          const PeerWait& wait);
IpcMeeting meet_threads(const std::string& name, const std::vector<int>& ordinals);
IpcMeeting meet_threads(PeerBoard& board, const std::string& name, int rank,
                        const std::vector<int>& ordinals, const PeerWait& wait);

class IpcCommunicator final : public CudaCommunicator {
 public:
  // Collective between processes.
  IpcCommunicator(Device& device, int rank, const std::shared_ptr<PeerBoard>& board,
                  const CudaCommOptions& options, IpcMeeting meeting);
  ~IpcCommunicator() override;

  std::string backend() const override { return "ipc"; }
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::vector<AllReduceAlgorithm> all_reduces_run() const override;
  void register_buffer(const Buffer& buffer) override;
  void deregister_buffer(const Buffer& buffer) override;

 private:
  // Where a call's regions are, and what peers are told of them.
  struct Regions {
    void* in = nullptr;
    void* out = nullptr;
    std::uint64_t in_offer = kOfferNothing;
  };

  void launch(std::span<const Call> calls) override;
  void launch_collective(const Call& call);
  void launch_messages(std::span<const Call> calls);
  void execute(std::span<const Call> calls);
  // Queue what must come before the next step: gathered signals and pulls.
  void queue_signals();
  void queue_pulls();
  void execute_step(const IpcStep& step, const Operation& operation);
  void add_pull(const IpcStep& step);
  void reduce_step(const IpcStep& step, const Operation& operation);
  void fork_lanes();
  void join_lanes();
  cudaStream_t lane_stream() const noexcept { return lane_ != 0 && uses_side_ ? side_ : stream(); }

  // Collective: makes each rank's buffer readable to all, within the time of `wait`.
  void map_everywhere(const Buffer& buffer, const PeerWait& wait);
  bool between_threads() const noexcept { return meeting_.events != nullptr; }
  std::size_t stage_offset(const IpcStep& step) const;
  void* address(const IpcStep& step, const IpcPlace& place, std::size_t call) const;
  std::uint64_t offer(const IpcStep& step) const;
  Regions regions_of(const Operation& operation, bool exposed) const;
  const std::uint64_t* offers(int set, int from) const;
  IpcTable table() const;

  void look_while_waiting(int peer, const Operation& operation, Deadline deadline);
  std::string asynchronous_error() override { return ""; }
  bool abandon() noexcept override;
  void drain() noexcept;

  const IpcMeeting meeting_;
  IpcMemory memory_;
  Buffer stage_;  // for the lanes, then for messages to each peer
  std::unique_ptr<IpcSignals> signals_;
  cudaStream_t side_ = nullptr;  // lane 1; lane 0 is stream()
  cudaEvent_t lane_event_ = nullptr;

  // Kept from call to call.
  IpcPlan plan_;
  std::vector<IpcMessage> messages_;
  std::vector<Regions> regions_;
  IpcPulls pulls_;
  // The state of execute() within one call.
  int lane_ = 0;
  bool uses_side_ = false;
  const Call* first_call_ = nullptr;
  bool has_signals_ = false, has_waits_ = false;

  bool has_all_reduced_ = false;
};

}  // namespace ddpbench::comm
