// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// EmulatedLink: how long what a rank does in shared memory would take over a network in which each
// rank has one full-duplex link to a switch. Times are steady_s(), which all ranks of a host share.
//
// What crosses a link in one direction follows what entered it before. A message is there when both
// links that it crosses have passed it on, and the latency is over: links of several senders share
// that of a receiver as TCP would let them, without what TCP's reactions cost. A collective takes
// the rounds of the algorithm that ran, and the bytes of the busiest link.
#pragma once

#include <cstddef>

#include "parallel/comm/communicator.h"
#include "parallel/comm/shm/peers/peer_group.h"

namespace ddpbench::comm {

class EmulatedLink {
 public:
  EmulatedLink(PeerGroup& peers, const Link& link) : peers_(peers), link_(link) {}

  bool is_given() const noexcept { return link_.bytes_per_s > 0; }

  // When a message of `peer` arrives whose transfer may begin now; 0: at once, without a link, and
  // for one integer, which steers ranks (ps) and would cross a network with the data beside it.
  double arrival_s(int peer, const Elements& message);
  // When a collective ends that all ranks had entered at `entered_s`. `ran`: of all-reduces.
  // REQUIRES: is_given().
  double end_s(const Operation& collective, AllReduceAlgorithm ran, double entered_s);

 private:
  // When a sender's link and this rank's have passed on so many bytes that are there at `from_s`.
  double crossed_s(int sender, double from_s, double bytes);

  PeerGroup& peers_;
  const Link link_;
  double receives_until_s_ = 0;
};

}  // namespace ddpbench::comm
