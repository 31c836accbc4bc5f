// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WorkMonitor: the works of one CUDA communicator, the CUDA events that tell how far they are, and
// the watchdog. The watchdog is a thread that looks at the events, the backend and the peers'
// board. It fails all works when a deadline passes, a peer is lost or a rank aborts. So the step
// itself never waits on the host. The monitor outlives the communicator as long as works do.
//
// The calls that queue an operation may block, too (NCCL connects ranks inside the first of a
// kind). launching() tells the monitor of them, and they have the operation's deadline themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/cuda/cuda_clock.h"
#include "parallel/comm/cuda/cuda_work.h"
#include "parallel/comm/cuda/peer_board.h"
#include "parallel/comm/queue/executor.h"

namespace ddpbench::comm {

// What the watchdog needs of a backend. It calls this on its thread, whose current device is set.
class MonitoredBackend {
 public:
  virtual ~MonitoredBackend() = default;
  // An error that came up after the calls; empty: none.
  virtual std::string asynchronous_error() = 0;
  // Ends what is in flight on the device, so that streams that wait for it go on. After a failure
  // it is called once a look, until it returns true: nothing is left to end.
  virtual bool abandon() noexcept = 0;
};

struct MonitorOptions {
  int rank = 0, size = 1;
  double timeout_s = 60;
  int ordinal = 0;
  std::shared_ptr<cuda::CudaClock> clock;
  std::shared_ptr<PeerBoard> board;  // may be null
  std::function<void()> progress;
};

class WorkMonitor final : public WorkOwner, public std::enable_shared_from_this<WorkMonitor> {
 public:
  explicit WorkMonitor(MonitorOptions options);
  ~WorkMonitor() override;

  const MonitorOptions& options() const noexcept { return options_; }
  // The communicator calls these two, and `backend` is used in between only. stop() fails works
  // that are not done.
  void start(MonitoredBackend& backend);
  void stop() noexcept;

  std::shared_ptr<CudaWork> make_work(const Operation& operation, std::uint64_t number);
  WorkMarks take_marks() override;
  void give_back(const WorkMarks& marks) noexcept override;
  WorkMarks recorded_marks(unsigned long long recording) override;
  // The issuing thread is inside the calls that queue `work`, from launching() to launched(). They
  // may block; what ends them from outside is the backend's abandon().
  void launching(const std::shared_ptr<CudaWork>& work);
  void launched() noexcept;
  // The works were queued in this order on one stream.
  void watch(const std::shared_ptr<CudaWork>& work);

  double timeout_s() const noexcept override { return options_.timeout_s; }
  cuda::CudaClock& clock() const override { return *options_.clock; }
  std::string prefix(const Operation* operation) const override;
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  void throw_if_failed() override;
  // Fails all works that are not done, and tells the peers.
  void fail(std::exception_ptr error) noexcept;
  // Callable from any thread.
  void request_abort(const std::string& reason) noexcept;
  void settle(CudaWork& work) override;
  [[noreturn]] void deadline_passed(CudaWork& work) override;

  std::uint32_t changes() const noexcept override {
    return changes_.load(std::memory_order_acquire);
  }
  void await_change(std::uint32_t seen, Deadline deadline) override;

 private:
  using Clock = DeadlineClock;

  void serve();
  void look();
  // Marks finished works; returns the oldest that is not, or null.
  std::shared_ptr<CudaWork> retire();
  void look_at(CudaWork& oldest);
  void look_at_recorded();
  void look_at_launch(const CudaWork& work, Clock::time_point since) const;
  struct Launch {
    std::shared_ptr<CudaWork> work;  // null: none
    Clock::time_point since;
  };
  Launch current_launch();
  // `latest` is the newest work that peers have to come to; may be null.
  std::string outside_failure(const CudaWork* latest);
  void fail_locked(std::exception_ptr error) noexcept;
  std::string timeout_text(const CudaWork& work) const;
  void announce() noexcept;
  // Whether the watchdog has to be woken to look soon. REQUIRES: mutex_ is held.
  bool was_dozing() noexcept { return std::exchange(dozes_, false); }

  const MonitorOptions options_;
  const std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();

  std::mutex events_mutex_;
  std::vector<WorkMarks> free_marks_;
  std::vector<WorkMarks> recorded_marks_;  // by place in a recording
  unsigned long long recording_ = 0;       // the latest, and how many works it has
  std::size_t recorded_works_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, changed_;
  std::vector<std::shared_ptr<CudaWork>> works_;  // from head_ on
  std::size_t head_ = 0;
  std::vector<std::weak_ptr<CudaWork>> recorded_;
  std::shared_ptr<CudaWork> launching_;  // or null
  Clock::time_point launching_since_{};
  bool dozes_ = false;  // the watchdog sleeps until it is woken, or for long
  std::exception_ptr failure_;
  std::string abort_reason_;
  bool abort_requested_ = false;
  bool stopping_ = false;

  std::atomic<bool> failed_ = false;
  std::atomic<std::uint32_t> changes_ = 0;

  // The watchdog's thread alone uses these.
  MonitoredBackend* backend_ = nullptr;
  bool abandoned_ = false;
  Clock::time_point last_peer_look_{};
  std::thread thread_;
};

}  // namespace ddpbench::comm
