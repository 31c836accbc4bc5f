// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Work forwards to the backend's state; an empty Work is done.
#include "parallel/comm/work.h"

#include <algorithm>

#include "base/error.h"

namespace ddpbench::comm {

Work::Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

void Work::wait(Stream& stream) const {
  if (state_) state_->wait(stream);
}

void Work::synchronize(Deadline deadline) const {
  if (state_) state_->synchronize(deadline);
}

void Work::synchronize() const {
  if (state_) state_->synchronize();
}

bool Work::test() const { return !state_ || state_->test(); }

WorkTimes Work::times() const { return state_ ? state_->times() : WorkTimes{}; }

std::size_t wait_any(std::span<const Work> works, Deadline deadline) {
  ensure(!works.empty(), "wait_any of no works");
  // Works of different communicators cannot wake each other, so it looks again every millisecond.
  constexpr double kLook_s = 1e-3;
  WorkState* const first = works.front().state_.get();
  const bool one_source = std::all_of(works.begin(), works.end(), [&](const Work& w) {
    return first && w.state_ && w.state_->source() == first->source();
  });
  while (true) {
    const std::uint32_t seen = first ? first->changes() : 0;
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (works[i].test()) return i;
    }
    // An empty work is done, so none is left here.
    if (has_passed(deadline)) {
      throw CommTimeout(fmt::format("none of {} operations was done in time", works.size()));
    }
    first->await_change(seen, one_source ? deadline : std::min(deadline, deadline_after(kLook_s)));
  }
}

}  // namespace ddpbench::comm
