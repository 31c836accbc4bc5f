// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The WorkState of all CUDA backends: an operation and the events around its device work.
//
// A work that was recorded into a CUDA graph stands for its latest replay: times(), test() and
// synchronize() refer to that. Where a step is recorded several times (once an input buffer, say),
// works at the same place share their events and stand for the latest replay of any recording.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "kernels/runtime/cuda/cuda_clock.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/work.h"

namespace ddpbench::comm {

class CudaWork;

struct WorkMarks {
  cudaEvent_t begin = nullptr, arrived = nullptr, end = nullptr;  // with times
  cudaEvent_t join = nullptr;  // recorded works: other streams of the recording wait for it
};

// What a work needs of the communicator that issued it. It lives as long as works do. WorkMonitor
// implements it. Works know only this class, so that the monitor may know the works.
class WorkOwner {
 public:
  virtual ~WorkOwner() = default;

  virtual WorkMarks take_marks() = 0;
  virtual void give_back(const WorkMarks& marks) noexcept = 0;
  // Events for the recording's next work. They are kept for good, because the recording uses them.
  virtual WorkMarks recorded_marks(unsigned long long recording) = 0;

  virtual double timeout_s() const noexcept = 0;
  virtual cuda::CudaClock& clock() const = 0;
  // "rank 1 of 2: all_reduce of 16 bytes: "
  virtual std::string prefix(const Operation* operation) const = 0;
  virtual void throw_if_failed() = 0;
  // The work's end was reached: marks it done, or throws its error if it had failed before.
  virtual void settle(CudaWork& work) = 0;
  // A caller's own deadline passed. Throws CommTimeout; for a collective, all works fail.
  [[noreturn]] virtual void deadline_passed(CudaWork& work) = 0;

  virtual std::uint32_t changes() const noexcept = 0;
  virtual void await_change(std::uint32_t seen, Deadline deadline) = 0;
};

class CudaWork : public WorkState {
 public:
  // `number` of the collective on the board; 0 for messages.
  CudaWork(std::shared_ptr<WorkOwner> owner, const Operation& operation, std::uint64_t number);
  ~CudaWork() override;
  CudaWork(const CudaWork&) = delete;
  CudaWork& operator=(const CudaWork&) = delete;

  void wait(Stream& stream) override;
  void synchronize(Deadline deadline) override;
  void synchronize() override;
  bool test() override;
  // NCCL does not tell when the peers had entered: arrived_told is false then.
  WorkTimes times() const override;
  const void* source() const override { return owner_.get(); }
  std::uint32_t changes() const override;
  void await_change(std::uint32_t seen, Deadline deadline) override;

  const Operation& operation() const noexcept { return operation_; }
  std::uint64_t number() const noexcept { return number_; }

  // Called by the issuing thread, around the device work on `stream`.
  void begin(cudaStream_t stream);
  // All peers have entered where `stream` is now. The call may be left out.
  void arrived(cudaStream_t stream);
  void end(cudaStream_t stream);
  // Called instead by a thread that runs the operation on the host, before `stream` reaches the
  // end. `time_s`: when all peers had entered, in the device's clock.
  void arrived_at(double time_s) noexcept { arrived_s_.store(time_s, std::memory_order_release); }
  // The work could not be queued.
  void fail(std::exception_ptr error) noexcept;

 private:
  friend class WorkMonitor;
  enum class State : std::uint8_t { open, issued, done, failed };

  bool is_recorded() const noexcept { return recording_ != 0; }
  bool reached(cudaEvent_t event) const;
  void ensure_issued() const;

  const std::shared_ptr<WorkOwner> owner_;
  const Operation operation_;
  const std::uint64_t number_;
  WorkMarks marks_;
  unsigned long long recording_ = 0;  // the recording it is a piece of; 0: none
  bool has_arrived_ = false;
  std::atomic<double> arrived_s_ = 0;  // where the host tells it
  std::exception_ptr error_;
  std::atomic<State> state_ = State::open;
  // The watchdog's notes: whether it has seen the work run, and since when.
  bool runs_ = false;
  DeadlineClock::time_point runs_since_{};
};

// The number of the recording that `stream` takes part in; 0: none.
unsigned long long recording_of(cudaStream_t stream);
inline bool is_recording(cudaStream_t stream) { return recording_of(stream) != 0; }

}  // namespace ddpbench::comm
