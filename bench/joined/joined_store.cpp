// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "bench/host/host_network.h"
#include "bench/host/terminal.h"
#include "parallel/comm/store/tcp_store_protocol.h"
#include "parallel/launch/open_files.h"

namespace ddpbench::bench {
namespace {

// Ports tried from MASTER_PORT on: torchrun's agent holds the first, other jobs perhaps the next.
constexpr int kStoreTries = 16;
// The first look for rank 0's file, later ones grow to the second value.
constexpr auto kFirstLook = std::chrono::milliseconds(2),
               kLongestLook = std::chrono::milliseconds(50);
// The answer of a store that a secret file names: it is on this host.
constexpr double kConnectTime_s = 2;
// Rank 0's limit may begin later than those of the others, who wait for what it says.
constexpr double kAfterRankZero_s = 2;
// How long rank 0 stays so that the others hear why there is no run: those that are here, and (so
// that all end alike) those that still start.
constexpr double kHeard_s = 1, kHeardLate_s = 5;
// For the other ranks of rank 0's launch to start.
constexpr double kGiveWay_s = 2;
constexpr double kPlaceTime_s = 5;  // for who took our place to say who it is
constexpr std::size_t kSecretBytes = 32;
// Rank 0 says so often for whom it waits, and rank 1 that it waits for rank 0.
constexpr double kSayEvery_s = 3;

std::string rank_claim_key(int rank) { return fmt::format("joined/claim/{}", rank); }
std::string place_key(int rank) { return fmt::format("joined/place/{}", rank); }
std::string said_key(const std::string& name, int rank) {
  return fmt::format("{}/said/{}", name, rank);
}
std::string heard_key(const std::string& name, int rank) {
  return fmt::format("{}/heard/{}", name, rank);
}
std::string answer_key(const std::string& name) { return name + "/answer"; }

std::string place_words(const nlohmann::json& place) {
  return fmt::format("process {} on {}", place.at("pid").get<int>(),
                     place.at("host").get<std::string>());
}

nlohmann::json failure_json(const WorldFailure& failure) {
  return {{"failure",
           {{"rank", failure.rank()},
            {"kind", failure.kind()},
            {"exit_code", failure.exit_code()},
            {"message", failure.what()}}}};
}

void throw_if_failure(const nlohmann::json& said) {
  const auto found = said.find("failure");
  if (found == said.end()) return;
  throw WorldFailure(found->at("rank"), found->at("kind"), found->at("exit_code"),
                     found->at("message"));
}

bool is_loopback(const std::string& address) { return address.starts_with("127."); }

// The others look for rank 0 at MASTER_ADDR.
void refuse_loopback(const std::string& interface, const std::string& address,
                     const std::string& master, double limit_s) {
  if (!is_loopback(address)) return;
  if (is_loopback(address_towards(master, limit_s))) return;
  throw ConfigError(
      fmt::format("--interface={}: rank 0 would listen at {}, where nobody finds it who looks at "
                  "MASTER_ADDR={}; name the interface that has that address, or none",
                  interface, address, master));
}

}  // namespace

JoinedStore::JoinedStore(const launch::RankEnvironment& environment, double limit_s,
                         const std::string& interface, std::function<void()> check)
    : environment_(environment), limit_s_(limit_s), interface_(interface), begin_s_(steady_s()) {
  options_ = {
      .host = environment.secret.empty() ? "127.0.0.1" : environment.master_address,
      .port = environment.master_port + (environment.agent_store ? 1 : 0),
      .tries = kStoreTries,
      // Jobs that were given the same secret find their own store by the rest.
      .secret = environment.secret.empty() ? "" : environment.secret + "\n" + environment.job,
      .timeout_s = limit_s,
      .owner = {},
      .check =
          [this, check = std::move(check)] {
            if (!store_ && (environment_.rank == 1 || !refused_at_.empty())) say_waiting("rank 0");
            if (checks_) check();
          },
      .refused = [this](const std::string& where) { refused_at_ = where; }};
}

// Says it on stderr when it is time to. The launcher may have lost a rank without telling anybody.
void JoinedStore::say_waiting(const std::string& missing) {
  const double waited_s = steady_s() - begin_s_;
  if (waited_s < said_s_ + kSayEvery_s) return;
  said_s_ = waited_s;
  say_error("ddpbench: rank {}{}{} of {} to come, {:.0f} s of {:.0f} s (--timeout){}\n",
            environment_.rank, kWaitingWords, missing, environment_.world_size, waited_s, limit_s_,
            store_ || refused_at_.empty()  // it was another job's
                ? ""
                : fmt::format("; the store at {} refuses this rank's secret (DDPBENCH_JOB_SECRET)",
                              refused_at_));
}

void JoinedStore::connect(const nlohmann::json& own) {
  if (environment_.world_size == 1 || store_) return;
  if (environment_.secret.empty()) {
    ensure_one_host(environment_, interface_);
  } else {
    ensure_long_secret(environment_);
    if (!environment_.several_hosts.empty() && !environment_.has_master_address) {
      throw ConfigError(fmt::format(
          "{}: ranks on several hosts meet at rank 0's, and MASTER_ADDR does not name it. Set it, "
          "and have the launcher hand it on (mpirun -x MASTER_ADDR=HOST)",
          environment_.several_hosts));
    }
  }
  launch::allow_open_files_of_joined_rank(static_cast<std::size_t>(environment_.world_size));
  // Rank 0 listens there and nowhere else; the others find it at MASTER_ADDR.
  if (is_first() && !interface_.empty()) {
    options_.host = find_interface(interface_).address;
    refuse_loopback(interface_, options_.host, environment_.master_address, limit_s_);
  }
  if (is_first()) serve(place_words(own));
  if (environment_.secret.empty() && !is_first()) {
    find();
  } else {
    store_ = comm::connect_tcp_store(options_);
  }
  take_place(own);
}

std::string JoinedStore::own_address() const {
  if (!interface_.empty()) return find_interface(interface_).address;
  return address_towards(options_.host, limit_s_);
}

void JoinedStore::serve(const std::string& owner) {
  const bool handed_out = environment_.secret.empty();
  if (handed_out) options_.secret = random_hex(kSecretBytes);
  options_.owner = owner;
  server_ = comm::make_tcp_store_server(options_);
  if (!handed_out) return;
  options_.port = server_->port();
  options_.tries = 1;
  secret_file_ = SecretFile(environment_, {options_.port, options_.secret});
}

// A file may be that of another job until ours is there, or its store may have ended just now.
void JoinedStore::find() {
  const double until_s = begin_s_ + limit_s_;
  auto pause = kFirstLook;
  do {
    if (const auto key = read_secret_file(environment_)) {
      options_.port = key->port;
      options_.tries = 1;
      options_.secret = key->secret;
      if (comm::store_owner(options_, key->port, std::min(kConnectTime_s, limit_s_))) {
        store_ = comm::connect_tcp_store(options_);
        return;
      }
    }
    options_.check();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestLook);
  } while (steady_s() < until_s);
  throw CommTimeout(fmt::format(
      "rank 0 has left no secret in {} within {} s: is it running, as this user and on this host? "
      "To give the ranks a secret: {}",
      secret_file_path(environment_), limit_s_, kSecretLine));
}

// Two launches of one user that interleave may have the same port and secret, and no name that
// tells them apart. A rank that another process has started than rank 0 lets the rank of rank 0's
// own launch come first.
void JoinedStore::give_way(const nlohmann::json& own) {
  if (is_first() || environment_.job_is_named) return;
  const auto first = nlohmann::json::parse(store_->get(place_key(0), limit_s_));
  if (first.at("mark") != own.at("mark") || first.at("parent") == own.at("parent")) return;
  const double until_s = steady_s() + kGiveWay_s;
  while (steady_s() < until_s && store_->add(rank_claim_key(environment_.rank), 0) == 0) {
    options_.check();
    std::this_thread::sleep_for(kLongestLook);
  }
}

void JoinedStore::take_place(const nlohmann::json& own) {
  const int rank = environment_.rank;
  give_way(own);
  if (store_->add(rank_claim_key(rank), 1) == 1) return store_->set(place_key(rank), own.dump());
  const auto other = nlohmann::json::parse(store_->get(place_key(rank), kPlaceTime_s));
  throw ConfigError(fmt::format(
      "there are two ranks {} at MASTER_PORT={}: {} was first, this is {}. Give each job another "
      "MASTER_PORT, or a DDPBENCH_JOB_SECRET of its own",
      rank, environment_.master_port, place_words(other), place_words(own)));
}

nlohmann::json JoinedStore::meet(const std::string& name, const nlohmann::json& own,
                                 const Hear& hear, const Reply& reply) {
  if (is_first()) return lead(name, hear, reply);
  const int rank = environment_.rank;
  store_->add(said_key(name, rank) + "/count", 1);
  store_->set(said_key(name, rank), own.dump());
  const auto answer =
      nlohmann::json::parse(store_->get(answer_key(name), limit_s_ + kAfterRankZero_s));
  store_->set(heard_key(name, rank), "1");
  throw_if_failure(answer);
  return answer;
}

nlohmann::json JoinedStore::lead(const std::string& name, const Hear& hear, const Reply& reply) {
  const double until_s = steady_s() + limit_s_;
  int from = 0;
  try {
    for (int rank = 1; rank < environment_.world_size; ++rank) {
      from = rank;
      const nlohmann::json said = hear_one(name, rank, until_s);
      throw_if_failure(said);
      hear(rank, said);
    }
    const nlohmann::json answer = reply();
    store_->set(answer_key(name), answer.dump());
    return answer;
  } catch (const WorldFailure& failure) {
    refuse(name, failure, failure.exit_code() == ConfigError("").exit_code());
    throw;
  } catch (const Error& error) {
    const bool refused = error.exit_code() == ConfigError("").exit_code();
    const WorldFailure failure(refused ? from : 0, error.kind(), error.exit_code(), error.what());
    refuse(name, failure, refused);
    throw WorldFailure(failure);
  }
}

nlohmann::json JoinedStore::hear_one(const std::string& name, int rank, double until_s) {
  for (;;) {
    const double left_s = std::max(until_s - steady_s(), 0.0);
    int first = rank;
    try {
      return nlohmann::json::parse(
          store_->get(said_key(name, rank), std::min(left_s, kSayEvery_s)));
    } catch (const CommTimeout&) {
      const std::string late = missing(name, first);
      if (left_s <= kSayEvery_s) {
        throw WorldFailure(first, "timeout", CommTimeout("").exit_code(),
                           fmt::format("{} did not come within {} s (--timeout)", late, limit_s_));
      }
      say_waiting(late);
    }
  }
}

// "rank 1", "ranks 1, 3"; the first that are missing. Ranks that have never come count before those
// that stopped on the way.
std::string JoinedStore::missing(const std::string& name, int& first) {
  std::vector<int> absent, silent;
  for (int rank = 1; rank < environment_.world_size && absent.size() <= 10; ++rank) {
    if (store_->add(rank_claim_key(rank), 0) == 0) absent.push_back(rank);
    if (rank >= first && store_->add(said_key(name, rank) + "/count", 0) == 0) {
      silent.push_back(rank);
    }
  }
  const std::vector<int>& late = absent.empty() ? silent : absent;
  if (late.empty()) return fmt::format("rank {}", first);
  first = late.front();
  return fmt::format("{} {}", plural(late.size(), "rank"), short_list(late));
}

// Tells the others why there is no run, and stays until they have heard it.
void JoinedStore::refuse(const std::string& name, const WorldFailure& failure, bool wait_for_late) {
  checks_ = false;
  const double until_s = steady_s() + std::min(limit_s_, wait_for_late ? kHeardLate_s : kHeard_s);
  store_->set(answer_key(name), failure_json(failure).dump());
  for (int rank = 1; rank < environment_.world_size; ++rank) {
    const bool is_here = store_->add(rank_claim_key(rank), 0) > 0;
    if (!is_here && !wait_for_late) continue;
    try {
      store_->get(heard_key(name, rank), std::max(until_s - steady_s(), 0.0));
    } catch (const CommError&) {
      // A rank that has ended hears nothing.
    }
  }
}

void JoinedStore::excuse(const std::string& name, const Error& error) {
  if (!store_) return;
  const WorldFailure failure(environment_.rank, error.kind(), error.exit_code(), error.what());
  checks_ = false;
  try {
    if (is_first()) {
      refuse(name, failure, false);
    } else {
      store_->set(said_key(name, environment_.rank), failure_json(failure).dump());
    }
  } catch (const std::exception&) {
    // Rank 0 is gone, and the store with it.
  }
}

void JoinedStore::share(const std::string& key, const std::string& value) {
  if (store_) store_->set(key, value);
}

std::string JoinedStore::await(const std::string& key) { return store_->get(key, limit_s_); }

void JoinedStore::wait_for_all(const std::string& name) {
  if (!store_) return;
  comm::store_barrier(*store_, name, environment_.world_size, limit_s_);
  const auto passed = [&](int rank) { return fmt::format("{}/passed/{}", name, rank); };
  if (!is_first()) return store_->set(passed(environment_.rank), "1");
  for (int rank = 1; rank < environment_.world_size; ++rank) await(passed(rank));
}

}  // namespace ddpbench::bench
