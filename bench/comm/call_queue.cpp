// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/call_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddpbench::bench {
namespace {

constexpr int kFirstCopies = 4;
// A host queues a copy in some microseconds. An H200 reads and writes some 4.5 TB/s: it copies 32
// MiB in 15 microseconds.
constexpr double kLeastCopy_s = 50e-6;
// Queueing takes the host some milliseconds at most.
constexpr double kMostBlocking_s = 5e-3;
// With the calls behind them, these are still less than the thousand or so that a CUDA stream
// holds. Fewer copies of kLeastCopy_s already last kMostBlocking_s.
constexpr int kMostCopies = 128;
constexpr double kMargin = 1.25;

}  // namespace

BlockingCopies::BlockingCopies(Device& device, std::size_t most_bytes)
    : device_(device),
      begin_(device.make_event()),
      end_(device.make_event()),
      copies_(kFirstCopies) {
  const auto stream = device_.make_stream();
  for (std::size_t bytes = kLeastBytes;; bytes *= 2) {
    allocate(bytes);
    device_.copy(*stream, to_.view(), from_.view());  // the first copy may be slow
    queue(*stream);
    stream->synchronize();
    const double copy_s = (end_->time_s() - begin_->time_s()) / copies_;
    if (copy_s >= kLeastCopy_s || 2 * bytes > most_bytes) return;
  }
}

std::array<PlannedBuffer, 2> BlockingCopies::planned_buffers(Buffer& from, Buffer& to,
                                                             std::size_t bytes) {
  return {{{&from, MemoryCategory::workspace, bytes}, {&to, MemoryCategory::workspace, bytes}}};
}

void BlockingCopies::allocate(std::size_t bytes) {
  from_ = {};
  to_ = {};
  ddpbench::allocate(device_, planned_buffers(from_, to_, bytes));
}

void BlockingCopies::queue(Stream& stream) {
  stream.record(*begin_);
  for (int i = 0; i < copies_; ++i) device_.copy(stream, to_.view(), from_.view());
  stream.record(*end_);
}

bool BlockingCopies::cover(double delay_s) {
  const double copy_s = (end_->time_s() - begin_->time_s()) / copies_;
  if (!(copy_s > 0)) return true;
  const int most =
      std::max(1, static_cast<int>(std::min<double>(kMostBlocking_s / copy_s, kMostCopies)));
  const bool could_grow = copies_ < most;
  const double wanted = copies_ + std::ceil(kMargin * delay_s / copy_s);
  copies_ = static_cast<int>(std::min<double>(wanted, most));
  return could_grow || !(delay_s > 0);
}

CallQueue::CallQueue(Device& device, comm::Communicator& world,
                     std::unique_ptr<BlockingCopies> blocking)
    : device_(device),
      world_(world),
      blocking_(std::move(blocking)),
      stream_(device.make_stream()),
      calls_(blocking_ ? kDepth : 1) {
  for (Call& call : calls_) {
    call.begin = device_.make_event();
    call.end = device_.make_event();
  }
  begin_row();
}

void CallQueue::begin_row() {
  depth_ = calls_.size();
  calibrate();
}

void CallQueue::add(const CollectiveCase& collective, const CollectiveMemory& memory) {
  if (added_ == 0 && blocking_) blocking_->queue(*stream_);
  Call& call = calls_.at(added_);
  const comm::CallOptions options{.after = stream_.get(), .start = comm::Start::deferred};
  world_.barrier(options).wait(*stream_);
  stream_->record(*call.begin);
  call.issued = collective.issue(world_, memory, options);
  call.issued.wait(*stream_);
  stream_->record(*call.end);
  call.queued_s = device_.now_s();
  ++added_;
}

std::vector<CallSpan> CallQueue::finish() {
  std::vector<CallSpan> spans;
  // One by one, oldest first: each has a deadline of its own.
  for (std::size_t i = 0; i < added_; ++i) calls_[i].issued.synchronize();
  stream_->synchronize();
  for (std::size_t i = 0; i < added_; ++i) {
    Call& call = calls_[i];
    call.issued = {};
    const double begin_s = call.begin->time_s();
    const bool late = blocking_ && call.queued_s > begin_s;
    spans.push_back({begin_s, call.end->time_s(), late});
  }
  if (blocking_ && added_ > 0) adjust(spans);
  added_ = 0;
  constexpr double kInterval_s = 5;
  if (device_.now_s() - calibrated_s_ > kInterval_s) calibrate();
  return spans;
}

// Adds as many copies as would have covered the longest delay. Where no more are allowed, queues
// fewer calls at a time, which the host does faster. A single call cannot be shortened: it may be
// the first of its kind, for which libraries were loaded.
void CallQueue::adjust(const std::vector<CallSpan>& spans) {
  double delay_s = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].late) delay_s = std::max(delay_s, calls_[i].queued_s - spans[i].begin_s);
  }
  const bool covered = blocking_->cover(delay_s);
  if (!covered && added_ > 1) depth_ = std::max<std::size_t>(1, std::min(depth_, added_) / 2);
}

// No work of this rank is in flight. Threads that share one GPU may have work in flight there. It
// ends without this rank, because their hosts queue nothing that waits for work not yet queued.
void CallQueue::calibrate() {
  device_.calibrate_clock();
  calibrated_s_ = device_.now_s();
}

}  // namespace ddpbench::bench
