// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The WorkState of all CUDA backends: an operation and the events around its device work.
//
// Recorded into a CUDA graph, a work stands for its latest replay: times() are those of it, and
// test() and synchronize() look at it. Works at the same place of several recordings (a step is
// recorded once an input buffer, say) share their events and stand for the latest replay of any.
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
  cudaEvent_t join = nullptr;  // of recorded works: what other streams of the recording wait for
};

// What a work asks of the communicator that issued it. It lives as long as works do. WorkMonitor is
// the implementation; the works know only this, so that the monitor may know the works.
class WorkOwner {
 public:
  virtual ~WorkOwner() = default;

  virtual WorkMarks take_marks() = 0;
  virtual void give_back(const WorkMarks& marks) noexcept = 0;
  // Events of the recording's next work. They are kept for good: the recording uses them.
  virtual WorkMarks recorded_marks(unsigned long long recording) = 0;

  virtual double timeout_s() const noexcept = 0;
  virtual cuda::CudaClock& clock() const = 0;
  // "rank 1 of 2: all_reduce of 16 bytes: "
  virtual std::string prefix(const Operation* operation) const = 0;
  virtual void throw_if_failed() = 0;
  // The work's end was reached: marks it done, unless it had failed before. Throws its error then.
  virtual void settle(CudaWork& work) = 0;
  // A caller's own deadline passed. Throws CommTimeout; that of a collective fails all works.
  [[noreturn]] virtual void deadline_passed(CudaWork& work) = 0;

  virtual std::uint32_t changes() const noexcept = 0;
  virtual void await_change(std::uint32_t seen, Deadline deadline) = 0;
};

class CudaWork : public WorkState {
 public:
  // `number`: of the collective on the board; 0 for messages.
  CudaWork(std::shared_ptr<WorkOwner> owner, const Operation& operation, std::uint64_t number);
  ~CudaWork() override;
  CudaWork(const CudaWork&) = delete;
  CudaWork& operator=(const CudaWork&) = delete;

  void wait(Stream& stream) override;
  void synchronize(Deadline deadline) override;
  void synchronize() override;
  bool test() override;
  // NCCL does not tell when the peers had come: then arrived_s is start_s, and waiting for them is
  // part of the transfer.
  WorkTimes times() const override;
  const void* source() const override { return owner_.get(); }
  std::uint32_t changes() const override;
  void await_change(std::uint32_t seen, Deadline deadline) override;

  const Operation& operation() const noexcept { return operation_; }
  std::uint64_t number() const noexcept { return number_; }

  // By the issuing thread, around the device work on `stream`.
  void begin(cudaStream_t stream);
  void arrived(
      cudaStream_t stream);  // all peers had entered where `stream` is now; may be left out
  void end(cudaStream_t stream);
  // The thread that runs the operation on the host instead calls it before `stream` reaches the
  // end: when all peers had entered, in the device's clock.
  void arrived_at(double time_s) noexcept { arrived_s_.store(time_s, std::memory_order_release); }
  // It could not be queued.
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
  std::atomic<double> arrived_s_ = 0;  // when told by the host
  std::exception_ptr error_;
  std::atomic<State> state_ = State::open;
  // The watchdog's notes: since when it has seen the work run.
  bool runs_ = false;
  std::chrono::steady_clock::time_point runs_since_{};
};

// The number of the recording that `stream` takes part in; 0: none.
unsigned long long recording_of(cudaStream_t stream);
inline bool is_recording(cudaStream_t stream) { return recording_of(stream) != 0; }

}  // namespace ddpbench::comm
