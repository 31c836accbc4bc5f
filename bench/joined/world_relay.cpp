// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/world_relay.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kNews = "joined/news";
constexpr double kExchangeEvery_s = 1;
// A store that does not answer must not hold up a rank that has failed: neither in one call nor in
// the next ones.
constexpr double kLongestCall_s = 2, kLeaveAlone_s = 4;
constexpr double kForEver_s = 1e9;

std::string count_key(int rank) { return fmt::format("joined/mirror/{}/count", rank); }
std::string message_key(int rank, std::int64_t i) {
  return fmt::format("joined/mirror/{}/{}", rank, i);
}

std::string words_of(const char* kind, int rank, int signal) {
  return nlohmann::json{{"kind", kind}, {"rank", rank}, {"signal", signal}}.dump();
}

}  // namespace

WorldRelay::WorldRelay(comm::TcpStoreOptions store, int rank, const JoinedHosts& hosts,
                       launch::WorldWatch& watch, JoinedBoard& board)
    : rank_(rank),
      hosts_(hosts),
      watch_(watch),
      board_(board),
      limit_s_(store.timeout_s),
      bell_(::eventfd(0, EFD_CLOEXEC)),
      answered_s_(steady_s()),
      exchanged_s_(steady_s()) {
  store.check = nullptr;
  store.refused = nullptr;
  store.timeout_s = std::min(store.timeout_s, kLongestCall_s);
  records_ = comm::connect_tcp_store(store);
  store.check = [this] { keep_up(); };
  store.bell = bell_.get();  // without one the end is seen at the next check
  news_ = comm::connect_tcp_store(store);
  records_->leave_will(kNews, words_of("ended", rank_, 0));
  thread_ = std::thread([this] { listen(); });
}

WorldRelay::~WorldRelay() {
  stopping_ = true;
  ::eventfd_write(bell_.get(), 1);
  thread_.join();
}

void WorldRelay::listen() {
  try {
    for (std::int64_t i = 0;; ++i) hear(news_->get(comm::store_item(kNews, i), kForEver_s));
  } catch (const Stopped&) {
  } catch (const std::exception&) {
    lost_first_ = true;
    if (!hosts_.share_one(rank_, 0)) watch_.tell_ended(0);
  }
}

// Called often while the thread waits for news.
void WorldRelay::keep_up() {
  if (stopping_ || lost_first_) throw Stopped();
  if (steady_s() - exchanged_s_ < kExchangeEvery_s) return;
  exchange();
}

void WorldRelay::hear(const std::string& news) {
  const nlohmann::json said = nlohmann::json::parse(news);
  const int rank = said.at("rank");
  const std::string kind = said.at("kind");
  if (rank == rank_ || hosts_.share_one(rank, rank_)) return;  // this host knows more
  if (kind == "ended") watch_.tell_ended(rank);
  if (kind == "interrupted") board_.mark_interrupted(rank, said.at("signal"));
  if (kind == "failed") board_.mark_failed(rank);
  if (kind == "written") board_.mark_written();
}

void WorldRelay::tell(const char* kind) {
  if (!is_left_alone()) append(kind);
}

void WorldRelay::append(const char* kind, int signal) {
  try {
    comm::store_append(*records_, kNews, words_of(kind, rank_, signal));
  } catch (const CommTimeout&) {
    silent_s_ = steady_s();
  } catch (const CommError&) {
    // Rank 0 is gone, and the store with it.
  }
}

bool WorldRelay::is_left_alone() const {
  return lost_first_ || steady_s() - silent_s_ < kLeaveAlone_s;
}

void WorldRelay::tell_failed() { tell("failed"); }
void WorldRelay::tell_written() { tell("written"); }

// It is tried also where the store did not answer a moment ago: nothing else tells the others the
// signal.
void WorldRelay::tell_interrupted(int signal) {
  if (!lost_first_) append("interrupted", signal);
}

void WorldRelay::mirror(launch::RankChannels& channels) {
  const std::lock_guard lock(mutex_);
  channels_ = &channels;
  received_.assign(static_cast<std::size_t>(channels.layout().ranks), 0);
  if (!hosts_.share_one(rank_, 0)) mirror_.emplace(channels.area(rank_));
}

void WorldRelay::exchange() {
  const std::lock_guard lock(mutex_);
  exchanged_s_ = steady_s();
  if (is_left_alone()) return note_silence();
  try {
    if (mirror_) {
      send();
    } else if (rank_ == 0 && channels_ != nullptr) {
      for (int rank = 1; rank < channels_->layout().ranks; ++rank) {
        if (!hosts_.share_one(rank, 0)) receive(rank);
      }
    } else if (rank_ != 0) {
      records_->add(count_key(rank_), 0);  // is it there?
    }
    answered_s_ = steady_s();
  } catch (const CommError&) {
    silent_s_ = steady_s();
    note_silence();
  }
}

// A store that has said nothing for too long is gone.
void WorldRelay::note_silence() {
  if (lost_first_ || steady_s() - answered_s_ < limit_s_) return;
  lost_first_ = true;
  if (!hosts_.share_one(rank_, 0)) watch_.tell_ended(0);
}

// The number of a message is told when it is there. A call that was not answered may be repeated.
void WorldRelay::send() {
  for (std::string& message : mirror_->take()) unsent_.push_back(std::move(message));
  while (!unsent_.empty()) {
    records_->set(message_key(rank_, sent_), unsent_.front());
    records_->set(count_key(rank_), std::to_string(sent_ + 1));
    unsent_.erase(unsent_.begin());
    ++sent_;
  }
}

void WorldRelay::receive(int rank) {
  std::int64_t& next = received_.at(static_cast<std::size_t>(rank));
  const std::int64_t count = records_->add(count_key(rank), 0);
  for (; next < count; ++next) {
    const std::string key = message_key(rank, next);
    launch::apply_mirrored(records_->get(key, kLongestCall_s), channels_->area(rank));
    records_->set(key, "");
  }
}

}  // namespace ddpbench::bench
