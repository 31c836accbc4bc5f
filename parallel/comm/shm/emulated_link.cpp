// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/emulated_link.h"

#include <algorithm>

#include "base/clock.h"
#include "parallel/comm/shm/collectives/collectives.h"

namespace ddpbench::comm {

double EmulatedLink::crossed_s(int sender, double from_s, double bytes) {
  const double duration_s = bytes / link_.bytes_per_s;
  receives_until_s_ = std::max(from_s, receives_until_s_) + duration_s;
  // The receivers of one sender's messages enter them in its link.
  std::atomic<double>& sends_until_s = peers_.block().slot(sender).sends_until_s;
  double before_s = sends_until_s.load(), sent_s = 0;
  do {
    sent_s = std::max(from_s, before_s) + duration_s;
  } while (!sends_until_s.compare_exchange_weak(before_s, sent_s));
  return std::max(sent_s, receives_until_s_);
}

double EmulatedLink::arrival_s(int peer, const Elements& message) {
  const bool steers = message.type == DataType::int64 && message.count == 1;
  if (!is_given() || peer == peers_.rank() || steers) return 0;
  return crossed_s(peer, steady_s(), static_cast<double>(message.bytes())) + link_.latency_s;
}

double EmulatedLink::end_s(const Operation& collective, AllReduceAlgorithm ran, double entered_s) {
  const int others = peers_.size() - 1;
  if (others == 0) return entered_s;
  // A root, or each rank where there is none, sends or takes a part of each other rank at once.
  int rounds = 1;
  double bytes = static_cast<double>(collective.part().bytes()) * others;
  const bool sums =
      collective.kind == OperationKind::all_reduce || collective.kind == OperationKind::reduce;
  const bool ring = ran == AllReduceAlgorithm::ring;
  if (sums && (ring || !is_small(collective, peers_.size()))) {
    rounds = ring ? 2 * others : 2;
    bytes *= 2.0 / peers_.size();
  }
  return crossed_s(peers_.rank(), entered_s, bytes) + rounds * link_.latency_s;
}

}  // namespace ddpbench::comm
