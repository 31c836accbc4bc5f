// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Proves that the connections of a Gloo context lead to the ranks of the job.
//
// Gloo listens on a port of its own and takes who comes there with the right sequence number for
// the rank of that number. The numbers are small and can be guessed. The store lets in only who has
// the job's secret. Therefore each rank lays a random token for each peer in the store, and sends
// it on its connection to that peer. A stranger does not know the token of the rank whose place it
// has taken. It can read what it is sent, but that is another token.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

namespace gloo {
class Context;
namespace rendezvous {
class Store;
}
}  // namespace gloo

namespace ddpbench::comm {

// It names the rank whose connection gives another token than the rank has laid, or none in time.
class UnprovenPeer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PeerTokens {
 public:
  // Lays this rank's tokens. The peers wait for them, so it comes before what may fail on one rank.
  PeerTokens(gloo::rendezvous::Store& store, int rank, int size);

  // Collective, before anything else is sent. Throws UnprovenPeer.
  void prove_peers(gloo::Context& context, gloo::rendezvous::Store& store,
                   std::chrono::milliseconds limit) const;

 private:
  const std::string own_;  // [peer]
};

}  // namespace ddpbench::comm
