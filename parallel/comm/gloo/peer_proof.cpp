// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/peer_proof.h"

#include <fmt/format.h>
#include <gloo/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "parallel/comm/store/tcp_store_protocol.h"

namespace ddpbench::comm {

namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr std::uint64_t kTokenSlot = 2;  // notices have 1, and data have random ones

std::string tokens_key(int rank) { return fmt::format("rank_{}_tokens", rank); }

std::size_t place_of(int rank) { return static_cast<std::size_t>(rank) * kTokenBytes; }

// A transfer of one token. Its memory is `bytes`.
class TokenTransfer {
 public:
  TokenTransfer(gloo::Context& context, int peer, std::string bytes)
      : peer_(peer),
        bytes_(std::move(bytes)),
        buffer_(context.createUnboundBuffer(bytes_.data(), bytes_.size())) {}

  void send() { buffer_->send(peer_, kTokenSlot, 0, bytes_.size()); }
  void recv() { buffer_->recv(peer_, kTokenSlot, 0, bytes_.size()); }
  void await_sent(std::chrono::milliseconds limit) { buffer_->waitSend(limit); }
  const std::string& await_received(std::chrono::milliseconds limit) {
    buffer_->waitRecv(limit);
    return bytes_;
  }

 private:
  int peer_;
  std::string bytes_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;  // ends before the memory does
};

// The transfers from and to one peer.
struct Handshake {
  int peer;
  std::unique_ptr<TokenTransfer> to, from;
};

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds time_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

void prove_peer(const gloo::Context& context, gloo::rendezvous::Store& store, Handshake& handshake,
                Clock::time_point deadline) {
  const std::vector<char> laid = store.get(tokens_key(handshake.peer));
  const std::size_t place = place_of(context.rank);
  if (laid.size() < place + kTokenBytes) {
    throw CommError(
        fmt::format("rank {} has laid no token for rank {}", handshake.peer, context.rank));
  }
  std::string sent;
  try {
    sent = handshake.from->await_received(time_until(deadline));
    handshake.to->await_sent(time_until(deadline));
  } catch (const std::exception& error) {
    throw UnprovenPeer(fmt::format(
        "the connection to rank {} gave no token, which would prove that it leads there: {}",
        handshake.peer, error.what()));
  }
  if (equal_in_constant_time(sent, {laid.data() + place, kTokenBytes})) return;
  throw UnprovenPeer(
      fmt::format("the connection that came for rank {0} does not lead there: a stranger is in its "
                  "place, who does not know the token that rank {0} has laid in the store",
                  handshake.peer));
}

std::string make_tokens(int size) {
  std::string tokens;
  for (int peer = 0; peer < size; ++peer) tokens += random_hex(kTokenBytes / 2);
  return tokens;
}

}  // namespace

PeerTokens::PeerTokens(gloo::rendezvous::Store& store, int rank, int size)
    : own_(make_tokens(size)) {
  store.set(tokens_key(rank), {own_.begin(), own_.end()});
}

void PeerTokens::prove_peers(gloo::Context& context, gloo::rendezvous::Store& store,
                             std::chrono::milliseconds limit) const {
  const Clock::time_point deadline = Clock::now() + limit;
  std::vector<Handshake> handshakes;
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == context.rank) continue;
    const std::string token = own_.substr(place_of(peer), kTokenBytes);
    handshakes.push_back(
        {peer, std::make_unique<TokenTransfer>(context, peer, token),
         std::make_unique<TokenTransfer>(context, peer, std::string(kTokenBytes, '\0'))});
  }
  for (Handshake& handshake : handshakes) {
    handshake.from->recv();
    handshake.to->send();
  }
  for (Handshake& handshake : handshakes) prove_peer(context, store, handshake, deadline);
}

}  // namespace ddpbench::comm
