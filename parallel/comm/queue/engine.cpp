// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/queue/engine.h"

#include "base/clock.h"
#include "base/error.h"
#include "kernels/runtime/device.h"

namespace ddpbench::comm {

QueuedWork::QueuedWork(std::shared_ptr<WorkDriver> driver, const Operation& operation, Start start)
    : driver_(std::move(driver)), operation_(operation), start_(start) {}

// A CPU stream runs inline: its later work is what the caller does next.
void QueuedWork::wait(Stream& stream) {
  ensure(stream.device().kind() == DeviceKind::cpu,
         "work on host memory is ordered with streams of CPU devices only");
  synchronize();
}

void QueuedWork::synchronize(Deadline deadline) { driver_->complete(*this, deadline); }

void QueuedWork::synchronize() {
  if (finished()) return rethrow();
  driver_->complete(*this, deadline_after(driver_->timeout_s()));
}

bool QueuedWork::test() { return driver_->test(*this); }

WorkTimes QueuedWork::times() const {
  ensure(finished(), "times of a work that is not done");
  return times_;
}

void QueuedWork::await_change(std::uint32_t seen, Deadline deadline) {
  driver_->await_change(seen, deadline);
}

void QueuedWork::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void QueuedWork::begin() noexcept { times_.start_s = steady_s(); }

void QueuedWork::peers_arrived() noexcept {
  if (times_.arrived_s == 0) times_.arrived_s = steady_s();
}

void QueuedWork::complete(bool arrival_told) {
  if (arrival_told) peers_arrived();
  WorkTimes times = times_;
  if (!arrival_told) times.arrived_s = times.start_s;
  times.arrived_told = arrival_told;
  complete(times);
}

void QueuedWork::complete(const WorkTimes& times) {
  times_ = times;
  times_.end_s = steady_s();
  finished_.store(true, std::memory_order_seq_cst);
  driver_->on_complete(*this);
}

void QueuedWork::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  finished_.store(true, std::memory_order_seq_cst);
}

}  // namespace ddpbench::comm
