// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See ring_work.h.
#include "parallel/comm/shm/queue/shm_work.h"

#include "base/error.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/shm/queue/work_queue.h"

namespace ddpbench::comm {

namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RingWork::RingWork(std::shared_ptr<WorkQueue> queue, const Operation& operation, Start start)
    : queue_(std::move(queue)), operation_(operation), start_(start) {}

RingWork::~RingWork() = default;

// A CPU stream runs inline: its later work is what the caller does next.
void RingWork::wait(Stream& stream) {
  ensure(stream.device().kind() == DeviceKind::cpu,
         "the ring backend orders streams of CPU devices");
  synchronize();
}

void RingWork::synchronize(Deadline deadline) { queue_->complete(*this, deadline); }

void RingWork::synchronize() {
  if (finished()) return rethrow();
  queue_->complete(*this, deadline_after(queue_->timeout_s()));
}

bool RingWork::test() { return queue_->test(*this); }

WorkTimes RingWork::times() const {
  ensure(finished(), "times of a work that is not done");
  return times_;
}

std::uint32_t RingWork::changes() const { return queue_->changes(); }

void RingWork::await_change(std::uint32_t seen, Deadline deadline) {
  queue_->await_change(seen, deadline);
}

void RingWork::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void RingWork::begin() noexcept { times_.start_s = now_s(); }

void RingWork::peers_arrived() noexcept {
  if (times_.arrived_s == 0) times_.arrived_s = now_s();
}

void RingWork::complete() noexcept {
  peers_arrived();
  complete(times_.start_s, times_.arrived_s);
}

void RingWork::complete(double start_s, double arrived_s) noexcept {
  times_ = {start_s, arrived_s, now_s()};
  finished_.store(true, std::memory_order_seq_cst);
}

void RingWork::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  finished_.store(true, std::memory_order_seq_cst);
}

}  // namespace ddpbench::comm
