// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of one rank's communicator, and whoever executes them.
//
// Operations start in the order of issue. At any time at most one thread executes: it holds the
// "role". That is a thread that waits for a work (it executes up to that work itself, which spares
// a hand-over) or the communication thread (it executes up to the last work that was issued to
// start at once). Collectives run to their end one by one; messages, once started, progress
// whenever the executing thread waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/comm/shm/block_pool.h"
#include "parallel/comm/shm/collectives/collective.h"
#include "parallel/comm/shm/peer_group.h"
#include "parallel/comm/shm/peer_memory.h"
#include "parallel/comm/shm/queue/message_transfers.h"
#include "parallel/comm/shm/queue/shm.h"
#include "parallel/comm/shm/queue/shm_work.h"

namespace ddpbench::comm {

class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  WorkQueue(std::shared_ptr<ControlBlock> block, int rank, const RingOptions& options);
  ~WorkQueue();

  PeerGroup& peers() noexcept { return peers_; }
  const RingOptions& options() const noexcept { return options_; }
  double timeout_s() const noexcept { return options_.timeout_s; }

  // Throws CommError when the communicator was aborted.
  std::shared_ptr<RingWork> issue(const Operation& operation, Start start);
  void group_start() { ++group_depth_; }
  void group_end();

  // Blocks until the work is done; rethrows its error.
  void complete(RingWork& work, Deadline deadline);
  bool test(RingWork& work);
  std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_seq_cst); }
  void await_change(std::uint32_t seen, Deadline deadline);

  // Changes the registered memory while nobody executes. No operation on it may be under way.
  void change_memory(const std::function<void(PeerMemory&)>& change);
  void abort(const std::string& reason) noexcept;
  // Ends the communication thread and fails what is not done.
  void shut_down() noexcept;

 private:
  class Role;  // held while executing

  void enqueue(const std::shared_ptr<RingWork>& work);
  void start_background(std::uint64_t last);
  std::shared_ptr<RingWork> pop(std::uint64_t last);

  // By the role's holder.
  void run_queue(std::uint64_t last, Deadline deadline, const WaitPolicy& policy);
  void run_collective(RingWork& work, Deadline deadline, const WaitPolicy& policy);
  void run_alone(const Operation& operation);
  void drive(RingWork& work, Deadline deadline);
  void drive_messages(Deadline deadline, PredicateRef done, const Operation* operation = nullptr);
  void run_messages();
  void drive_background();
  void finished(RingWork& work);
  void fail_all(RingWork* culprit, std::exception_ptr error) noexcept;

  bool try_role() noexcept;
  void release_role() noexcept;
  void announce() noexcept;
  template <typename Predicate>
  void wait_locally(Deadline deadline, Predicate&& predicate);

  void serve();
  bool background_wanted() noexcept;
  bool queue_waits() noexcept;  // for the communication thread
  void wake_thread() noexcept;

  const RingOptions options_;
  PeerGroup peers_;
  PeerMemory memory_;
  StoreTuners tuners_;
  MessageTransfers transfers_;
  const WaitPolicy caller_policy_, thread_policy_;
  const std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  std::vector<const std::byte*> sources_;  // scratch of collectives, [size]

  int group_depth_ = 0;  // of the issuing thread
  std::vector<std::shared_ptr<RingWork>> group_;

  std::mutex queue_mutex_;
  std::vector<std::shared_ptr<RingWork>> queue_;  // from head_ on
  std::size_t head_ = 0;
  std::atomic<std::uint64_t> issued_ = 0;   // sequence of the last one queued
  std::atomic<std::uint64_t> started_ = 0;  // of the last one taken out of the queue
  std::uint64_t collectives_ = 0;           // run; equal on all ranks

  std::atomic<bool> role_taken_ = false;
  std::atomic<int> claimants_ = 0;          // callers that want the role
  std::atomic<std::uint32_t> changes_ = 0;  // completions and releases; callers sleep on it
  std::atomic<int> local_sleepers_ = 0;

  std::thread thread_;  // made by the first call that needs it
  std::atomic<std::uint64_t> background_up_to_ = 0;
  std::atomic<int> background_messages_ = 0;  // under way that nobody needs to wait for
  std::atomic<std::uint32_t> thread_bell_ = 0;
  std::atomic<bool> stopping_ = false;
};

}  // namespace ddpbench::comm
