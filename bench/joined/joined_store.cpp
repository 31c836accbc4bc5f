// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "base/clock.h"
#include "base/error.h"

namespace ddpbench::bench {
namespace {

// Ports tried from MASTER_PORT on: torchrun's agent holds the first, other jobs perhaps the next.
constexpr int kStoreTries = 16;
constexpr double kFirstErrorWaitS = 2;  // for the guilty rank to speak, after this rank noticed
constexpr double kAreasWaitS = 2;       // for the other ranks of a failed run to leave areas
constexpr double kLastLookS = 0.05;     // after that, for areas that have arrived already

constexpr const char* kErrorCountKey = "joined/errors";
constexpr const char* kErrorKey = "joined/first_error";

std::string left_key(int rank) { return fmt::format("joined/area/{}", rank); }

// Copies a rank's area as it is now: a communicator's watchdog may still mark its heartbeat there.
std::string snapshot(std::span<std::byte> area) {
  std::string text(area.size(), '\0');
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= area.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word =
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(area.data() + at)).load();
    std::memcpy(&text[at], &word, sizeof(word));
  }
  if (at < area.size()) std::memcpy(&text[at], area.data() + at, area.size() - at);
  return text;
}

}  // namespace

void JoinedStore::connect() {
  if (environment_.world_size == 1 || store_) return;
  comm::TcpStoreOptions options{
      .host = environment_.master_address,
      .port = environment_.master_port + (environment_.agent_store ? 1 : 0),
      .tries = kStoreTries,
      .secret = environment_.secret,
      .timeout_s = limit_s_};
  if (is_first()) server_ = comm::make_tcp_store_server(options);
  store_ = comm::connect_tcp_store(options);
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

void JoinedStore::collect(launch::RankChannels& channels) {
  const auto key = [](int rank) { return fmt::format("collected/{}", rank); };
  if (!is_first()) {
    store_->set(key(environment_.rank), snapshot(channels.area(environment_.rank)));
    return;
  }
  for (int rank = 1; rank < environment_.world_size; ++rank) {
    const std::string area = await(key(rank));
    const auto place = channels.area(rank);
    ensure(area.size() == place.size(), "rank {} sent {} bytes of {}", rank, area.size(),
           place.size());
    std::memcpy(place.data(), area.data(), area.size());
  }
}

void JoinedStore::tell_failure(const launch::RankError& own, launch::RankChannels& channels) {
  if (!store_) return;
  try {
    const bool noticed = own.kind == "comm" || own.kind == "timeout" || own.kind == "interrupted";
    if (!noticed && store_->add(kErrorCountKey, 1) == 1) {
      store_->set(kErrorKey, nlohmann::json{{"rank", environment_.rank},
                                            {"kind", own.kind},
                                            {"message", own.message},
                                            {"operation", own.operation}}
                                 .dump());
    }
    const auto area = channels.area(environment_.rank);
    if (is_first() || area.size() > comm::kMaxStoreValueBytes) return;
    store_->set(left_key(environment_.rank),
                {reinterpret_cast<const char*>(area.data()), area.size()});
  } catch (const std::exception&) {
    // The store ended with its rank: there is no rank left to tell.
  }
}

launch::RunFailure JoinedStore::first_failure(const launch::RunFailure& noticed) {
  if (!store_) return noticed;
  launch::RunFailure failure = noticed;
  try {
    const auto first = nlohmann::json::parse(store_->get(kErrorKey, kFirstErrorWaitS));
    failure.rank = first.at("rank");
    failure.error.kind = first.at("kind");
    failure.error.message = first.at("message");
    failure.error.operation = first.at("operation");
  } catch (const std::exception&) {
    // The store ended with its rank, or no rank said more: only this rank's error is known.
  }
  return failure;
}

void JoinedStore::take_what_is_left(launch::RankChannels& channels) {
  const double until_s = steady_s() + kAreasWaitS;
  for (int rank = 1; store_ && rank < environment_.world_size; ++rank) {
    try {
      const std::string area =
          store_->get(left_key(rank), std::max(until_s - steady_s(), kLastLookS));
      const auto place = channels.area(rank);
      if (area.size() == place.size()) std::memcpy(place.data(), area.data(), place.size());
    } catch (const std::exception&) {
      continue;
    }
  }
}

}  // namespace ddpbench::bench
