// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/call_queue.h"

#include <algorithm>
#include <utility>

namespace ddpbench::bench {

CallQueue::CallQueue(Device& device, comm::Communicator& world,
                     std::unique_ptr<BlockingCopies> busy)
    : device_(device),
      world_(world),
      busy_(std::move(busy)),
      stream_(device.make_stream()),
      calls_(busy_ ? kDepth : 1) {
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
  if (added_ == 0 && busy_) busy_->queue(*stream_);
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
    const bool late = busy_ && call.queued_s > begin_s;
    spans.push_back({begin_s, call.end->time_s(), late});
  }
  if (busy_ && added_ > 0) adjust(spans);
  added_ = 0;
  constexpr double kInterval_s = 5;
  if (device_.now_s() - calibrated_s_ > kInterval_s) calibrate();
  return spans;
}

// So many more copies as would have covered the longest delay; where there are no more, fewer
// calls, which the host queues faster. One call alone cannot be shortened: it is the first of its
// kind, perhaps, for which libraries were loaded.
void CallQueue::adjust(const std::vector<CallSpan>& spans) {
  double delay_s = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].late) delay_s = std::max(delay_s, calls_[i].queued_s - spans[i].begin_s);
  }
  const bool covered = busy_->cover(delay_s);
  if (!covered && added_ > 1) depth_ = std::max<std::size_t>(1, std::min(depth_, added_) / 2);
}

// Nothing of this rank is under way. Between threads whose devices are one GPU others' work may be,
// which ends without this rank: its host queues nothing that waits for what is not queued yet.
void CallQueue::calibrate() {
  device_.calibrate_clock();
  calibrated_s_ = device_.now_s();
}

}  // namespace ddpbench::bench
