// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/link_traffic.h"

namespace ddpbench::comm {

LinkTraffic::LinkTraffic(int ranks)
    : ranks_(ranks), links_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

Traffic LinkTraffic::total() const {
  Traffic sum;
  for (const Traffic& link : links_) sum += link;
  return sum;
}

Traffic LinkTraffic::sent(int rank) const {
  Traffic sum;
  for (int to = 0; to < ranks_; ++to) sum += between(rank, to);
  return sum;
}

Traffic LinkTraffic::received(int rank) const {
  Traffic sum;
  for (int from = 0; from < ranks_; ++from) sum += between(from, rank);
  return sum;
}

}  // namespace ddpbench::comm
