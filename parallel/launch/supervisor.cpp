// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts the ranks of one run, watches them, and ends them all when one fails.
#include "parallel/launch/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/guilty_rank.h"
#include "parallel/launch/open_files.h"
#include "parallel/launch/rank_variables.h"

namespace ddpbench::launch {
namespace {

// How often the supervisor looks at the channels. The end of a child and a signal wake it at once.
// The ranks need its core: 20 looks a second of some 10 us are 0.02 % of one.
constexpr int kLookMs = 50;
constexpr double kProgressEvery_s = 0.1;
// How long a failure may be a consequence of one that is not yet visible: a peer's own deadline is
// about to pass, or an interruption reached a rank before it reached us.
constexpr double kSettle_s = 0.5;
constexpr int kSettleLooks = 6;  // and at least so many looks, in case we are not scheduled
// Ranks have the same limit for their waits and know what they wait for, so they may speak first.
constexpr double kLetRanksSpeak_s = 1;
// A longer pause between two looks means that we were suspended ourselves (Ctrl-Z).
constexpr double kSuspended_s = 2;  // as DeadlineClock::kSuspended

std::unique_ptr<comm::TcpStoreServer> serve_rendezvous(const std::string& secret) {
  comm::TcpStoreOptions options;
  options.secret = secret;
  return comm::make_tcp_store_server(options);
}

// What `ps` shows: the file behind /proc/self/exe instead of that name.
std::string shown_name(const std::string& executable) {
  std::error_code no_link;
  const std::filesystem::path target = std::filesystem::read_symlink(executable, no_link);
  return no_link ? executable : target.string();
}

// Whether the signal may be a part of an interruption of the whole job.
bool may_be_interruption(const RunFailure& failure) {
  constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
  return std::ranges::find(kEndingSignals, failure.signal) != kEndingSignals.end();
}

class Supervision {
 public:
  Supervision(const LaunchSpec& spec, RankChannels& channels, const SuperviseOptions& options)
      : channels_(channels),
        options_(options),
        secret_(make_secret()),
        store_(spec.ranks > 1 ? serve_rendezvous(secret_) : nullptr) {
    start(spec);
  }

  SuperviseResult run() {
    SuperviseResult result;
    result.interrupted = interrupted_;
    while (!interrupted_ && !finished()) {
      wait(kLookMs);
      look();
      if (any_alive_or_failed() && interruption_wanted()) {
        result.interrupted = true;
        break;
      }
      result.failure = judge();
      if (result.failure) break;
      report_progress(false);
    }
    end_all();
    report_progress(true);
    result.startup_s = startup_s();
    result.pauses = std::move(pauses_);
    for (const RankSight& sight : sights_) {
      result.peak_rss_bytes.push_back(sight.exit ? sight.exit->peak_rss_bytes : 0);
    }
    return result;
  }

 private:
  void start(const LaunchSpec& spec) {
    ChildSpec child;
    child.executable = spec.executable;
    child.arguments = {shown_name(spec.executable)};
    child.arguments.insert(child.arguments.end(), spec.arguments.begin(), spec.arguments.end());
    child.inherited_fds = spec.inherited_fds;
    for (int rank = 0; rank < spec.ranks; ++rank) {
      const int port = store_ ? store_->port() : 0;
      child.environment = rank_variables(spec, rank, {port, secret_});
      children_.emplace_back(child);
    }
    for (std::size_t i = 0; i < children_.size() && !interrupted_; ++i) confirm(i);
    sights_.resize(children_.size());
    for (RankSight& sight : sights_) sight.last_progress_s = steady_s();
  }

  // Waits until the rank's program runs, or the user interrupts.
  void confirm(std::size_t rank) {
    // Counted by looks, so that time in which we were suspended (Ctrl-Z) does not count.
    double waited_s = 0;
    while (!children_[rank].confirm(kLookMs)) {
      interrupted_ = interruption_wanted();
      if (interrupted_) return;
      waited_s += 1e-3 * kLookMs;
      if (options_.timeout_s > 0 && waited_s > options_.timeout_s) {
        throw CommTimeout(fmt::format(
            "rank {} did not begin within {:.3g} s (--timeout): its process is stopped, "
            "or its program cannot be read",
            rank, options_.timeout_s));
      }
    }
  }

  bool interruption_wanted() const { return options_.interrupted && options_.interrupted(); }
  bool any_alive() const { return std::ranges::any_of(children_, &ChildProcess::alive); }
  bool any_failed() const { return std::ranges::any_of(sights_, has_failed); }
  bool any_alive_or_failed() const { return any_alive() || any_failed(); }
  bool finished() const { return !any_alive() && !any_failed(); }

  void wait(int milliseconds) const {
    std::vector<pollfd> watched;
    for (const ChildProcess& child : children_) {
      if (child.alive()) watched.push_back({child.watch_fd(), POLLIN, 0});
    }
    ::poll(watched.data(), watched.size(), milliseconds);
  }

  void look() {
    const double now_s = steady_s();
    const double pause_s = now_s - looked_s_;
    const bool suspended = pause_s > kSuspended_s;
    if (suspended) pauses_.push_back({looked_s_, now_s});
    looked_s_ = now_s;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      RankSight& sight = sights_[i];
      if (suspended) sight.last_progress_s += pause_s;
      const bool was_alive = !sight.exit;
      sight.exit = children_[i].reap();
      const std::uint64_t heartbeat = sight.status.heartbeat;
      sight.status = channels_.status(static_cast<int>(i));
      const bool ended = was_alive && sight.exit;
      if (ended || sight.status.heartbeat != heartbeat) sight.last_progress_s = now_s;
    }
  }

  // The failure of the run, once it is clear.
  std::optional<RunFailure> judge() {
    if (!any_failed()) return judge_idleness();
    if (looks_since_failure_++ == 0) failed_s_ = looked_s_;
    const bool settled = looked_s_ - failed_s_ >= kSettle_s && looks_since_failure_ > kSettleLooks;
    if (auto cause = find_cause(sights_)) {
      if (may_be_interruption(*cause) && !settled) return std::nullopt;
      return cause;
    }
    if (!settled && any_alive()) return std::nullopt;
    see_stopped();
    return blame_for_noticed(sights_);
  }

  std::optional<RunFailure> judge_idleness() {
    if (options_.timeout_s <= 0 || !any_alive()) return std::nullopt;
    double latest_s = 0;
    for (const RankSight& sight : sights_) latest_s = std::max(latest_s, sight.last_progress_s);
    if (looked_s_ - latest_s < options_.timeout_s + kLetRanksSpeak_s) return std::nullopt;
    see_stopped();
    return blame_for_stall(sights_, looked_s_ - latest_s);
  }

  // Reads /proc, so it is called only when it matters.
  void see_stopped() {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const ProcessState state = children_[i].state();
      sights_[i].stopped = state.is_stopped();
      sights_[i].activity = state.words();
    }
  }

  void report_progress(bool last) {
    if (!options_.progress) return;
    const double now_s = steady_s();
    if (!last && now_s - reported_s_ < kProgressEvery_s) return;
    reported_s_ = now_s;
    options_.progress(channels_);
  }

  // Sends SIGTERM, then SIGKILL to those that are still there after the grace period.
  void end_all() {
    const double deadline_s = steady_s() + options_.grace_s;
    for (const ChildProcess& child : children_) {
      child.signal(SIGTERM);
      child.signal(SIGCONT);  // a stopped process would not see SIGTERM
    }
    while (any_alive() && steady_s() < deadline_s) {
      wait(std::min(kLookMs, 1 + static_cast<int>(1e3 * (deadline_s - steady_s()))));
      for (ChildProcess& child : children_) child.reap();
    }
    for (const ChildProcess& child : children_) child.signal(SIGKILL);
    for (std::size_t i = 0; i < children_.size(); ++i) sights_[i].exit = children_[i].reap(true);
  }

  double startup_s() const {
    double ready_s = 0;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const double rank_s = channels_.status(static_cast<int>(i)).ready_s;
      if (rank_s == 0) return 0;
      ready_s = std::max(ready_s, rank_s);
    }
    return ready_s - begin_s_;
  }

  double begin_s_ = steady_s();
  RankChannels& channels_;
  const SuperviseOptions& options_;
  std::string secret_;
  std::unique_ptr<comm::TcpStoreServer> store_;  // null where one rank is alone
  std::vector<ChildProcess> children_;
  std::vector<RankSight> sights_;  // one a rank
  double looked_s_ = begin_s_;
  std::vector<Pause> pauses_;
  double reported_s_ = 0;
  double failed_s_ = 0;  // when the first failure was seen
  int looks_since_failure_ = 0;
  bool interrupted_ = false;  // while the ranks were started
};

}  // namespace

SuperviseResult run_ranks(const LaunchSpec& spec, RankChannels& channels,
                          const SuperviseOptions& options) {
  ensure(spec.ranks > 0 && spec.ranks <= channels.layout().ranks, "{} ranks with channels for {}",
         spec.ranks, channels.layout().ranks);
  constexpr std::size_t kStandard = 3;
  allow_open_files(static_cast<std::size_t>(spec.ranks), kStandard + spec.inherited_fds.size());
  return Supervision(spec, channels, options).run();
}

}  // namespace ddpbench::launch
