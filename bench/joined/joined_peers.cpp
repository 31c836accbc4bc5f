// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_limits.h"
#include "bench/host/host_network.h"
#include "bench/host/terminal.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/launch/child_process.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kRollKey = "joined/roll";
constexpr const char* kBoardKey = "joined/board";

// A higher rank leaves the report to a lower one that lives for so long, and waits at most that
// long for another's report.
constexpr double kLeaveReport_s = 1, kAwaitReport_s = 3;
// For what another host has told before it aborted a communicator.
constexpr double kAwaitNews_s = 1, kAwaitLoss_s = 0.2;
// A rank that its launcher asked to end waits for the cause no longer than kAwaitCause_s, and ends
// kBeforeKills_s before the launcher kills it.
constexpr double kBeforeKills_s = 0.3, kAwaitCause_s = 3;
constexpr auto kPeersLook = std::chrono::milliseconds(10);

// The name of the claim for which all ranks compete that lack the same rank 0.
std::string claim_name(const launch::RankEnvironment& environment) {
  const std::string world = environment.master_address + "\n" + environment.job;
  return fmt::format("ddpbench-report-{}-{:016x}", ::geteuid(),
                     hash_bytes(world.data(), world.size()));
}

}  // namespace

JoinedPeers::JoinedPeers(const launch::RankEnvironment& environment, double limit_s,
                         const std::string& interface)
    : environment_(environment),
      store_(environment, limit_s, interface, [this] { check(); }),
      watch_(environment.world_size),
      claim_(claim_name(environment)) {}

void JoinedPeers::join(const PlanValues& values) {
  if (environment_.rank == 0) return meet(values);
  try {
    meet(values);
  } catch (const Interrupted& error) {
    store_.excuse(kRollKey, error);
    throw;
  } catch (const CommError& error) {
    // Rank 0 serves the store. It is there where it refuses our secret.
    lacks_first_ = store_.get() != nullptr || dynamic_cast<const CommTimeout*>(&error) != nullptr;
    if (!lacks_first_) throw;
    throw WorldFailure(
        0, error.kind(), error.exit_code(),
        fmt::format("rank 0 did not come, or ended before all had joined: {}", error.what()));
  }
}

void JoinedPeers::meet(const PlanValues& values) {
  const launch::ProcessName process = launch::own_process();
  const launch::ProcessName parent = launch::parent_process();
  const nlohmann::json own{{"host", host_name()},
                           {"mark", comm::host_mark()},
                           {"congestion_control", tcp_congestion_control()},
                           {"pid", process.pid},
                           {"start", process.start},
                           {"parent", {parent.pid, parent.start}}};
  const nlohmann::json plan = plan_json(values);
  store_.connect(own);
  std::vector<nlohmann::json> members{own};
  const auto hear = [&](int rank, const nlohmann::json& said) {
    const nlohmann::json& member = said.at("member");
    const std::string differs = disagreement(rank, said.at("plan"), 0, plan);
    if (!differs.empty()) {
      throw ConfigError(
          fmt::format("the ranks disagree: {}; start all of them with the same options", differs));
    }
    if (member.at("mark") == own.at("mark")) {
      watch_.add(rank, {member.at("pid"), member.at("start")});
    }
    members.push_back(member);
  };
  const auto reply = [&]() -> nlohmann::json {
    board_ = JoinedBoard::create();
    return {{"members", members}, {"board", board_->handle()}};
  };
  const nlohmann::json roll = store_.meet(kRollKey, {{"member", own}, {"plan", plan}}, hear, reply);
  if (environment_.rank == 0) store_.all_are_here();
  const nlohmann::json& others = roll.at("members");
  if (static_cast<int>(others.size()) != environment_.world_size) {
    throw ConfigError(fmt::format("WORLD_SIZE is {} on rank {} but {} on rank 0",
                                  environment_.world_size, environment_.rank, others.size()));
  }
  std::vector<JoinedHosts::Member> places;
  for (const nlohmann::json& member : others) {
    places.push_back({member.at("host"), member.at("mark"), member.at("congestion_control")});
  }
  hosts_ = JoinedHosts(places);
  for (int rank = 0; rank < environment_.world_size && environment_.rank != 0; ++rank) {
    const nlohmann::json& member = others.at(static_cast<std::size_t>(rank));
    const bool is_seen = rank != environment_.rank && hosts_.share_one(rank, environment_.rank);
    if (is_seen) watch_.add(rank, {member.at("pid"), member.at("start")});
  }
  open_board(roll.at("board"));
}

// Rank 0 has made its host's board, whose handle is `handle`.
void JoinedPeers::open_board(const std::string& handle) {
  const int rank = environment_.rank;
  if (rank != 0 && hosts_.share_one(rank, 0)) board_ = JoinedBoard::open(handle);
  if (!hosts_.are_several()) return;
  if (!board_ && makes_for_host()) {
    board_ = JoinedBoard::create();
    store_.share(host_key(kBoardKey), board_->handle());
  } else if (!board_) {
    board_ = JoinedBoard::open(store_.await(host_key(kBoardKey)));
  }
  relay_ = std::make_unique<WorldRelay>(store_.options(), rank, hosts_, watch_, *board_);
}

int JoinedPeers::maker() const {
  return hosts_.count() == 0 ? 0 : hosts_.leader(environment_.rank);
}

std::string JoinedPeers::host_key(const std::string& key) const {
  return fmt::format("{}/on/{}", key, maker());
}

void JoinedPeers::mirror_records(launch::RankChannels& channels) {
  if (relay_) relay_->mirror(channels);
}

void JoinedPeers::exchange_records() const {
  if (relay_) relay_->exchange();
}

std::string JoinedPeers::lost_words(int rank) const {
  const bool is_told = hosts_.are_several() && !hosts_.share_one(rank, environment_.rank);
  return fmt::format("{} has failed or ended{}",
                     hosts_.count() == 0 ? fmt::format("rank {}", rank) : hosts_.words(rank),
                     is_told ? ", or its host cannot be reached" : "");
}

std::string JoinedPeers::await_made(const std::string& key) {
  for (;;) {
    try {
      return store_.await(key);
    } catch (const CommTimeout&) {
      if (watch_.is_stopped(makes_for_host() ? 0 : maker())) throw;
    }
  }
}

void JoinedPeers::check() {
  if (is_complete()) return;
  if (is_told_to_end()) throw Interrupted();
  if (const auto rank = first_lost()) {
    const CommError noticed(lost_words(*rank));
    throw WorldFailure(*rank, noticed.kind(), noticed.exit_code(), noticed.what());
  }
}

std::string JoinedPeers::reason_to_end() {
  if (is_told_to_end()) return Interrupted().what();
  const auto rank = first_lost();
  return rank ? lost_words(*rank) : "";
}

bool JoinedPeers::is_told_to_end() {
  if (!interrupt_requested()) return false;
  double never = 0;
  told_to_end_s_.compare_exchange_strong(never, steady_s());
  if (board_) board_->mark_interrupted(environment_.rank, interrupt_signal());
  // A second thread waits here: it must not end the rank before the others hear why.
  if (relay_) {
    std::call_once(told_interrupted_, [this] { relay_->tell_interrupted(interrupt_signal()); });
  }
  return true;
}

double JoinedPeers::left_before_kills_s(double failed_s) const {
  const double told_s = told_to_end_s_;
  const double patience_s = std::min(environment_.seconds_to_end - kBeforeKills_s, kAwaitCause_s);
  return (told_s > 0 ? told_s : failed_s) + patience_s - steady_s();
}

bool JoinedPeers::defers_to_rank_0() const {
  return hosts_.are_several() && !hosts_.share_one(environment_.rank, 0);
}

report::MachineSnapshot JoinedPeers::take_snapshot() const {
  report::MachineSnapshot snapshot = take_machine_snapshot();
  if (environment_.world_size > 1) snapshot.own_involuntary_switches.reset();
  for (int rank = 0; rank < environment_.world_size; ++rank) {
    if (rank == environment_.rank) continue;
    const launch::ProcessState other = watch_.state(rank);
    const bool is_seen = other.letter != '?' && snapshot.own_busy_s;
    snapshot.own_busy_s =
        is_seen ? std::optional(*snapshot.own_busy_s + other.busy_s) : std::nullopt;
    if (snapshot.own_major_page_faults) *snapshot.own_major_page_faults += other.major_page_faults;
    if (!is_seen) snapshot.own_major_page_faults.reset();
  }
  return snapshot;
}

void JoinedPeers::await_news() const {
  const double begin_s = steady_s();
  const auto is_known = [&] {
    // A launcher that has lost a host asks the ranks of the others to end before they know of it.
    const double limit_s = board_->interruption() ? kAwaitLoss_s : kAwaitNews_s;
    return first_lost() || steady_s() - begin_s > limit_s;
  };
  while (relay_ && !is_known()) std::this_thread::sleep_for(kPeersLook);
}

void JoinedPeers::mark_failed() {
  if (board_) board_->mark_failed(environment_.rank);
  if (!relay_) return;
  relay_->exchange();
  relay_->tell_failed();
}

std::optional<int> JoinedPeers::first_lost() const {
  if (const auto failed = board_ ? board_->failed_rank() : std::nullopt) return failed;
  for (int rank = 0; rank < environment_.world_size; ++rank) {
    if (watch_.has_ended(rank)) return rank;
  }
  return std::nullopt;
}

WorldView JoinedPeers::look(const launch::RankChannels& channels) const {
  exchange_records();
  WorldView view{.ranks = watch_.look(channels, is_complete()),
                 .interruption = board_ ? board_->interruption() : std::nullopt,
                 .complete = is_complete()};
  if (!board_ && interrupt_requested()) {
    view.interruption = Interruption{environment_.rank, interrupt_signal()};
  }
  for (std::size_t rank = 0; rank < view.ranks.size() && hosts_.are_several(); ++rank) {
    view.ranks[rank].host = hosts_.name(static_cast<int>(rank));
  }
  return view;
}

bool JoinedPeers::takes_report() {
  if (!board_) return environment_.rank == 0 || (lacks_first_ && claims_report_without_board());
  const auto gone = [this](int rank) { return watch_.has_ended(rank) || watch_.is_stopped(rank); };
  const double begin_s = steady_s();
  while (!board_->is_written() && steady_s() - begin_s < kAwaitReport_s) {
    bool is_lowest = true;
    for (int rank = 0; rank < environment_.rank; ++rank) is_lowest = is_lowest && gone(rank);
    const bool is_late = steady_s() - begin_s > kLeaveReport_s;
    const bool may_take = (is_lowest || is_late) && may_take_report(is_late);
    if (may_take && board_->take_report(environment_.rank, gone)) return true;
    std::this_thread::sleep_for(kPeersLook);
  }
  return false;
}

// Each host has a board of its own: the ranks of rank 0's host write the report. Where rank 0 is
// gone, and the store with it, those of the next host cannot hear of others there: they do it, too,
// unless these were faster (JoinedReport::tells_failure).
bool JoinedPeers::may_take_report(bool is_late) const {
  const int host = hosts_.of(environment_.rank);
  if (host == 0) return true;
  return host == 1 && watch_.has_ended(0) && (is_late || hosts_.ranks(0).size() == 1);
}

// Without rank 0 there is no board. The ranks notice it at about the same time.
bool JoinedPeers::claims_report_without_board() {
  const double begin_s = steady_s();
  for (bool waited = false; steady_s() - begin_s < kAwaitReport_s; waited = true) {
    if (claim_.take()) return !waited;
    std::this_thread::sleep_for(kPeersLook);
  }
  return true;  // the rank that has the claim does nothing with it
}

void JoinedPeers::tell_written() {
  if (relay_) relay_->tell_written();
  if (board_) return board_->mark_written();
  // Ranks that notice later see our claim.
  if (lacks_first_) std::this_thread::sleep_for(std::chrono::duration<double>(kLeaveReport_s));
}

bool JoinedPeers::settle(const launch::RankChannels& channels, double at_most_s) const {
  const double until_s = steady_s() + at_most_s;
  while (steady_s() < until_s) {
    if (has_settled(look(channels).ranks, environment_.rank)) return true;
    std::this_thread::sleep_for(kPeersLook);
  }
  return false;
}

}  // namespace ddpbench::bench
