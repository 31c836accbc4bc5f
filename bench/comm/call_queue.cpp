// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/call_queue.h"

#include <algorithm>
#include <cmath>

namespace ddpbench::bench {
namespace {

// A copy that takes several times as long as queueing it, on the fastest GPUs, too.
constexpr std::size_t kCopyBytes = std::size_t{32} << 20;
constexpr int kFirstCopies = 4;
// With the calls behind them still less than the thousand or so that a CUDA stream holds; and no
// longer, because queueing takes the host some milliseconds at most.
constexpr int kMostCopies = 128;
constexpr double kMostBusy_s = 5e-3;
constexpr double kMargin = 1.25;

}  // namespace

CallQueue::CallQueue(Device& device, comm::Communicator& world, bool runs_inline)
    : device_(device),
      world_(world),
      runs_inline_(runs_inline),
      stream_(device.make_stream()),
      calls_(runs_inline ? 1 : kDepth) {
  for (Call& call : calls_) {
    call.begin = device_.make_event();
    call.end = device_.make_event();
  }
  if (runs_inline_) return;
  busy_begin_ = device_.make_event();
  busy_end_ = device_.make_event();
  from_ = device_.allocate(kCopyBytes, MemoryCategory::workspace);
  to_ = device_.allocate(kCopyBytes, MemoryCategory::workspace);
  copies_ = kFirstCopies;
}

void CallQueue::keep_busy() {
  if (runs_inline_) return;
  stream_->record(*busy_begin_);
  for (int i = 0; i < copies_; ++i) device_.copy(*stream_, to_.view(), from_.view());
  stream_->record(*busy_end_);
}

void CallQueue::add(const CollectiveCase& collective, const CollectiveMemory& memory) {
  if (added_ == 0) keep_busy();
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
    const bool late = !runs_inline_ && call.queued_s > begin_s;
    spans.push_back({begin_s, call.end->time_s(), late});
  }
  if (!runs_inline_ && added_ > 0) adjust(spans);
  added_ = 0;
  return spans;
}

// So many more copies as would have covered the longest delay.
void CallQueue::adjust(const std::vector<CallSpan>& spans) {
  double delay_s = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].late) delay_s = std::max(delay_s, calls_[i].queued_s - spans[i].begin_s);
  }
  const double copy_s = (busy_end_->time_s() - busy_begin_->time_s()) / copies_;
  if (!(copy_s > 0)) return;
  const double most = std::min<double>(kMostBusy_s / copy_s, kMostCopies);
  const double wanted = copies_ + std::ceil(kMargin * delay_s / copy_s);
  copies_ = std::max(1, static_cast<int>(std::min(wanted, most)));
}

}  // namespace ddpbench::bench
