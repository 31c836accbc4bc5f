// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The works of one CUDA communicator, and WorkMonitor, their watchdog: a thread that looks at the
// works' events and the backend. It fails all works when a deadline passes, the backend has an
// error or a rank aborts. So the step itself never waits on the host. The monitor outlives the
// communicator as long as works do.
//
// A work that was recorded into a CUDA graph stands for its latest replay: times() and
// synchronize() refer to that. Where a step is recorded several times (once an input buffer, say),
// works at the same place share their events and stand for the latest replay of any recording.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/cuda/cuda_stream.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::comm {

class WorkMonitor;

struct WorkMarks {
  cudaEvent_t begin = nullptr, end = nullptr;  // with times
  cudaEvent_t join = nullptr;  // recorded works: other streams of the recording wait for it
};

// An operation and the events around its device work.
class CudaWork final : public WorkState {
 public:
  CudaWork(std::shared_ptr<WorkMonitor> owner, const Operation& operation);
  ~CudaWork() override;
  CudaWork(const CudaWork&) = delete;
  CudaWork& operator=(const CudaWork&) = delete;

  void wait(Stream& stream) override;
  void synchronize(std::optional<Deadline> deadline) override;
  // NCCL does not tell when the peers had entered: arrived_told is false then.
  WorkTimes times() const override;
  bool is_done() override;

  const Operation& operation() const noexcept { return operation_; }

  // The issuing thread calls these around the device work on `stream`.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);
  // A thread that runs the operation on the host calls it before `stream` reaches the end.
  // `time_s`: when all peers had entered, in the device's clock.
  void arrived_at(double time_s) noexcept { arrived_s_.store(time_s, std::memory_order_release); }
  // The work could not be queued.
  void fail(std::exception_ptr error) noexcept;

 private:
  friend class WorkMonitor;
  enum class State : std::uint8_t { open, issued, done, failed };

  bool is_recorded() const noexcept { return recording_ != 0; }
  bool reached(cudaEvent_t event) const;
  void ensure_issued() const;

  const std::shared_ptr<WorkMonitor> owner_;
  const Operation operation_;
  WorkMarks marks_;
  unsigned long long recording_ = 0;  // the recording it is a piece of; 0: none
  std::atomic<double> arrived_s_ = 0;
  std::exception_ptr error_;
  std::atomic<State> state_ = State::open;
  // The watchdog's notes: whether it has seen the work run, and since when.
  bool runs_ = false;
  DeadlineClock::time_point runs_since_{};
};

// What the watchdog needs of a backend. It calls this on its thread, whose current device is set.
class MonitoredBackend {
 public:
  virtual ~MonitoredBackend() = default;
  // An error that came up after the calls; empty: none.
  virtual std::string asynchronous_error() = 0;
  // Ends what is in flight on the device, so that streams that wait for it go on. It is called once
  // after a failure.
  virtual void abandon() noexcept = 0;
};

struct MonitorOptions {
  int rank = 0, size = 1;
  double timeout_s = 60;
  int ordinal = 0;
  std::shared_ptr<cuda::CudaClock> clock;
  std::function<void()> progress;
};

class WorkMonitor final : public std::enable_shared_from_this<WorkMonitor> {
 public:
  explicit WorkMonitor(MonitorOptions options) : options_(std::move(options)) {}
  ~WorkMonitor();
  WorkMonitor(const WorkMonitor&) = delete;
  WorkMonitor& operator=(const WorkMonitor&) = delete;

  // The communicator calls these two, and `backend` is used in between only. stop() fails works
  // that are not done.
  void start(MonitoredBackend& backend);
  void stop() noexcept;

  // From now on the issuing thread is inside the calls that queue `work`; null: it has left them.
  // They may block; what ends them from outside is the backend's abandon().
  void launching(const std::shared_ptr<CudaWork>& work) noexcept;
  // The works were queued in this order on one stream.
  void watch(const std::shared_ptr<CudaWork>& work);

  std::string prefix(const Operation* operation) const {
    return call_prefix(options_.rank, options_.size, operation);
  }
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  void throw_if_failed();
  // Fails all works that are not done.
  void fail(std::exception_ptr error) noexcept;
  // Callable from any thread.
  void abort(const std::string& reason) noexcept;

 private:
  friend class CudaWork;
  using Clock = DeadlineClock;

  WorkMarks take_marks();
  void give_back(const WorkMarks& marks) noexcept;
  // Events for the recording's next work. They are kept for good, because the recording uses them.
  WorkMarks recorded_marks(unsigned long long recording);
  // The work's end was reached: marks it done, or throws its error if it had failed before.
  void settle(CudaWork& work);
  // A caller's own deadline passed. Throws CommTimeout; for a collective, all works fail.
  [[noreturn]] void deadline_passed(CudaWork& work);

  void serve();
  void look();
  // Marks finished works; returns the oldest that is not, or null.
  std::shared_ptr<CudaWork> retire();
  void look_at(CudaWork& oldest);
  void look_at_recorded();
  void look_at_launch(const CudaWork& work, Clock::time_point since) const;
  void fail_locked(std::exception_ptr error) noexcept;
  std::string timeout_text(const CudaWork& work) const;
  const MonitorOptions options_;

  std::mutex events_mutex_;
  std::vector<WorkMarks> free_marks_;
  std::vector<WorkMarks> recorded_marks_;  // by place in a recording
  unsigned long long recording_ = 0;       // the latest, and how many works it has
  std::size_t recorded_works_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::pmr::unsynchronized_pool_resource memory_;  // kept, so that later works allocate nothing
  std::pmr::deque<std::shared_ptr<CudaWork>> works_{&memory_};
  std::vector<std::weak_ptr<CudaWork>> recorded_;
  std::shared_ptr<CudaWork> launching_;  // or null
  Clock::time_point launching_since_{};
  std::exception_ptr failure_;
  bool stopping_ = false;

  std::atomic<bool> failed_ = false;

  // The watchdog's thread alone uses these.
  MonitoredBackend* backend_ = nullptr;
  bool abandoned_ = false;
  std::thread thread_;
};

// The number of the recording that `stream` takes part in; 0: none.
unsigned long long recording_of(cudaStream_t stream);

}  // namespace ddpbench::comm
