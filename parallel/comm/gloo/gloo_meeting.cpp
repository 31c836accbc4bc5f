// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/gloo_meeting.h"

#include <fmt/format.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/comm/gloo/peer_proof.h"

namespace ddpbench::comm {

namespace {

using std::chrono::milliseconds;
using TcpDevice = gloo::transport::tcp::Device;

// The longest sleep in a wait for the store, between two calls of EngineOptions::check.
constexpr double kStoreLook_s = 0.1;
constexpr int kAttempts = 4;
// What the first attempt may take; each further one twice as long. All ranks have come when it
// counts, and connecting takes milliseconds. Where a machine is so busy that it takes longer, a
// later attempt has the time.
constexpr double kFirstAttempt_s = 2;

// Gloo's words for our store. Each attempt has keys of its own.
class Rendezvous : public gloo::rendezvous::Store {
 public:
  Rendezvous(comm::Store& store, int rank, const EngineOptions& options, int attempt)
      : store_(store),
        options_(options),
        own_addresses_(std::to_string(rank)),
        prefix_(fmt::format("{}/gloo/{}/", options.name, attempt)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (key == own_addresses_) peers_know_ = true;
    store_.set(prefix_ + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = await(key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) await(key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

  // Whether Gloo has told the peers where this rank listens, so that they come on with the attempt.
  bool peers_know() const { return peers_know_; }

 private:
  std::string await(const std::string& key) {
    const Deadline deadline = deadline_after(options_.timeout_s);
    while (true) {
      try {
        return store_.get(prefix_ + key, std::min(kStoreLook_s, options_.timeout_s));
      } catch (const CommTimeout&) {
        if (has_passed(deadline)) {
          throw CommTimeout(
              fmt::format("rank {} did not join within {} s", rank_in(key), options_.timeout_s));
        }
      }
      if (options_.check) options_.check();
    }
  }
  // All keys name the rank that sets them: "1", "rank_1", "rank_1_tokens".
  static std::string rank_in(const std::string& key) {
    const std::size_t begin = key.find_first_of("0123456789");
    return key.substr(begin, key.find_first_not_of("0123456789", begin) - begin);
  }

  comm::Store& store_;
  const EngineOptions& options_;
  const std::string own_addresses_;  // Gloo's key
  const std::string prefix_;
  bool peers_know_ = false;
};

// Throws what Gloo throws, UnprovenPeer, and what the store throws.
GlooRanks attempt_to_connect(Rendezvous& rendezvous, int rank, int size, const std::string& address,
                             double limit_s) {
  GlooRanks ranks;
  ranks.device = std::dynamic_pointer_cast<TcpDevice>(
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str())));
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  // Gloo waits five times as long for a connection.
  context->setTimeout(milliseconds(std::llround(limit_s / 5 * 1e3)));
  const PeerTokens tokens(rendezvous, rank, size);  // before a rank can fail: others wait for them
  std::shared_ptr<gloo::transport::Device> device = ranks.device;
  context->connectFullMesh(rendezvous, device);
  tokens.prove_peers(*context, rendezvous, milliseconds(std::llround(limit_s * 1e3)));
  ranks.context = context;
  return ranks;
}

std::string met_key(int rank) { return fmt::format("rank_{}_met", rank); }

// Collective: why the lowest rank that has failed has, or empty. `failure`: this rank's; empty: it
// is connected with all.
std::string agree(Rendezvous& rendezvous, int rank, int size, const std::string& failure) {
  rendezvous.set(met_key(rank), {failure.begin(), failure.end()});
  std::string first;
  for (int peer = 0; peer < size; ++peer) {
    const std::vector<char> said = rendezvous.get(met_key(peer));
    if (first.empty()) first.assign(said.begin(), said.end());
  }
  return first;
}

}  // namespace

GlooRanks connect_ranks(Store& store, int rank, int size, const EngineOptions& options) {
  double left_s = std::clamp(options.timeout_s, 0.2, 1e7);
  const double share_s = left_s / (2 * kAttempts);
  for (int attempt = 0;; ++attempt) {
    const bool is_last = attempt + 1 == kAttempts;
    const double limit_s =
        is_last ? left_s : std::min(std::ldexp(kFirstAttempt_s, attempt), share_s);
    left_s -= limit_s;
    Rendezvous rendezvous(store, rank, options, attempt);
    GlooRanks ranks;
    std::string failure;
    try {
      ranks = attempt_to_connect(rendezvous, rank, size, options.address, limit_s);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // Gloo's, and UnprovenPeer
      failure =
          fmt::format("rank {} of {}: Gloo cannot connect the ranks: {}", rank, size, error.what());
      if (!rendezvous.peers_know()) throw CommError(failure);
    }
    const std::string first = agree(rendezvous, rank, size, failure);
    if (first.empty()) return ranks;
    if (is_last) throw CommError(failure.empty() ? first : failure);
  }
}

}  // namespace ddpbench::comm
