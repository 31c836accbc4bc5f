// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts the ranks of one run, watches them, and ends them all when one fails.
#include "parallel/launch/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/ranges.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/guilty_rank.h"
#include "parallel/launch/open_files.h"

namespace ddpbench::launch {
namespace {

// How often the supervisor looks at the channels. The end of a child and a signal wake it at once.
// The ranks need its core: 20 looks a second of some 10 us are 0.02 % of one.
constexpr int kLookMs = 50;
constexpr double kProgressEvery_s = 0.1;
// kLetOthersSpeak_s is at least so many looks, in case we are not scheduled.
constexpr int kSettleLooks = 6;

// Whether the signal may be a part of an interruption of the whole job.
bool may_be_interruption(const RunFailure& failure) {
  constexpr std::array kEndingSignals = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
                                         SIGUSR1, SIGUSR2, SIGALRM};
  return std::ranges::find(kEndingSignals, failure.signal) != kEndingSignals.end();
}

class Supervision {
 public:
  Supervision(Children children, double begin_s, int ranks_per_process, RankChannels& channels,
              const SuperviseOptions& options)
      : begin_s_(begin_s),
        channels_(channels),
        options_(options),
        ranks_per_process_(static_cast<std::size_t>(ranks_per_process)),
        children_(std::move(children)),
        views_(children_.size() * ranks_per_process_) {
    const bool several_hosts = std::ranges::any_of(children_, [this](const auto& child) {
      return child->host() != children_.front()->host();
    });
    for (std::size_t rank = 0; rank < views_.size(); ++rank) {
      views_[rank].last_progress_s = now_s_;
      views_[rank].rank = process_of(rank).rank(static_cast<int>(rank));
      if (several_hosts) views_[rank].host = process_of(rank).host();
      if (ranks_per_process_ == 1) continue;
      const std::size_t first = first_in_process_of(rank);
      views_[rank].process_ranks =
          fmt::format("ranks {} to {}", first, first + ranks_per_process_ - 1);
    }
  }

  SuperviseResult run() {
    SuperviseResult result;
    while (any_alive_or_failed()) {
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
    if (result.failure && result.failure->rank >= 0) {
      const Child& guilty = process_of(static_cast<std::size_t>(result.failure->rank));
      result.failure->rank = guilty.rank(result.failure->rank);
      result.failure->host = guilty.host();
      guilty.explain(*result.failure);
    }
    result.startup_s = startup_s();
    return result;
  }

 private:
  Child& process_of(std::size_t rank) { return *children_[rank / ranks_per_process_]; }
  std::size_t first_in_process_of(std::size_t rank) const {
    return rank - rank % ranks_per_process_;
  }

  bool interruption_wanted() const { return options_.interrupted && options_.interrupted(); }
  bool any_alive() const {
    return std::ranges::any_of(children_, [](const auto& child) { return child->alive(); });
  }
  bool any_failed() const { return std::ranges::any_of(views_, has_failed); }
  bool any_alive_or_failed() const { return any_alive() || any_failed(); }

  void wait(int milliseconds) const {
    std::vector<pollfd> watched;
    for (const auto& child : children_) child->watch(watched);
    ::poll(watched.data(), watched.size(), milliseconds);
  }

  void look() {
    now_s_ = unpaused_s();
    // What a rank of a process that has ended has written is complete: it is read after this look.
    const auto exits = mapped(children_, [](const auto& child) { return child->reap(); });
    for (std::size_t i = 0; i < views_.size(); ++i) {
      RankView& view = views_[i];
      const std::uint64_t heartbeat = view.status.heartbeat;
      view.status = channels_.status(static_cast<int>(i));
      if (view.status.error) view.status.error_s -= process_of(i).clock_ahead_s();
      if (view.status.heartbeat != heartbeat) view.last_progress_s = now_s_;
    }
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const bool was_alive = !views_[i].exit;
      see_exit(i, exits[i / ranks_per_process_]);
      views_[i].lost = process_of(i).lost();
      if (was_alive && views_[i].exit) views_[i].last_progress_s = now_s_;
    }
  }

  // The end of a process is that of its ranks. Where some of them have said why, its exit code is
  // theirs, and the others just ended.
  void see_exit(std::size_t rank, const std::optional<ChildExit>& exit) {
    views_[rank].exit = exit;
    if (!exit || exit->signal != 0 || views_[rank].status.error) return;
    const std::size_t first = first_in_process_of(rank);
    for (std::size_t i = first; i < first + ranks_per_process_; ++i) {
      if (views_[i].status.error) views_[rank].exit->code = 0;
    }
  }

  // The failure of the run, once it is clear.
  std::optional<RunFailure> judge() {
    if (!any_failed()) return judge_idleness();
    if (looks_since_failure_++ == 0) failed_s_ = now_s_;
    const bool settled =
        now_s_ - failed_s_ >= kLetOthersSpeak_s && looks_since_failure_ > kSettleLooks;
    if (auto cause = find_cause(views_)) {
      if (may_be_interruption(*cause) && !settled) return std::nullopt;
      return cause;
    }
    if (!settled && any_alive()) return std::nullopt;
    see_stopped();
    return blame_for_noticed(views_);
  }

  std::optional<RunFailure> judge_idleness() {
    if (options_.timeout_s <= 0 || !any_alive()) return std::nullopt;
    const double latest_s = largest(views_, 0.0, &RankView::last_progress_s);
    if (now_s_ - latest_s < options_.timeout_s + kLetRanksSpeak_s) return std::nullopt;
    see_stopped();
    return blame_for_stall(views_, now_s_ - latest_s);
  }

  // Reads /proc, so it is called only when it matters.
  void see_stopped() {
    for (std::size_t i = 0; i < views_.size(); ++i) {
      views_[i].stopped = process_of(i).is_stopped();
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
    for (const auto& child : children_) {
      child->signal(SIGTERM);
      child->signal(SIGCONT);  // a stopped process would not see SIGTERM
    }
    while (any_alive() && steady_s() < deadline_s) {
      wait(std::min(kLookMs, 1 + static_cast<int>(1e3 * (deadline_s - steady_s()))));
      for (const auto& child : children_) child->reap();
    }
    for (const auto& child : children_) child->signal(SIGKILL);
    for (const auto& child : children_) child->reap(true);
    for (std::size_t i = 0; i < views_.size(); ++i) see_exit(i, process_of(i).reap());
  }

  double startup_s() {
    double ready_s = 0;
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const double rank_s = channels_.status(static_cast<int>(i)).ready_s;
      if (rank_s == 0) return 0;
      ready_s = std::max(ready_s, rank_s - process_of(i).clock_ahead_s());
    }
    return ready_s - begin_s_;
  }

  const double begin_s_;
  RankChannels& channels_;
  const SuperviseOptions& options_;
  const std::size_t ranks_per_process_;
  Children children_;
  std::vector<RankView> views_;  // one a rank
  // When the last look was. While this process is stopped, no rank can be blamed.
  double now_s_ = unpaused_s();
  double reported_s_ = 0;
  double failed_s_ = 0;  // when the first failure was seen
  int looks_since_failure_ = 0;
};

}  // namespace

SuperviseResult run_ranks(const LaunchSpec& spec, RankChannels& channels,
                          const SuperviseOptions& options) {
  ensure(spec.ranks > 0 && spec.ranks <= channels.layout().ranks, "{} ranks with channels for {}",
         spec.ranks, channels.layout().ranks);
  ensure(spec.ranks_per_process > 0 && spec.ranks % spec.ranks_per_process == 0,
         "{} ranks, {} in each process", spec.ranks, spec.ranks_per_process);
  constexpr std::size_t kStandard = 3;
  allow_open_files(static_cast<std::size_t>(spec.ranks),
                   static_cast<std::size_t>(spec.ranks_per_process),
                   kStandard + spec.inherited_fds.size());
  const double begin_s = steady_s();
  const std::string secret = make_secret();
  const auto store =
      spec.processes() > 1 ? comm::make_tcp_store_server({.secret = secret}) : nullptr;
  std::map<std::string, std::string> variables = spec.environment;
  variables["DDPBENCH_LAUNCHER"] = "ddpbench";
  variables["DDPBENCH_JOB_SECRET"] = secret;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["WORLD_SIZE"] = std::to_string(spec.processes());
  if (store) variables["MASTER_PORT"] = std::to_string(store->port());
  ChildSpec child;
  child.executable = spec.executable;
  child.arguments = {"ddpbench"};
  child.arguments.insert(child.arguments.end(), spec.arguments.begin(), spec.arguments.end());
  child.inherited_fds = spec.inherited_fds;
  Children children;
  std::vector<ChildProcess*> started;
  for (int process = 0; process < spec.processes(); ++process) {
    variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(process);
    child.environment = child_variables(spec.threads_per_device, variables, {"MASTER_PORT"});
    auto of_rank = std::make_unique<ChildProcess>(child);
    started.push_back(of_rank.get());
    children.push_back(std::move(of_rank));
  }
  // One that is stopped, or whose file system hangs, is left to the supervision.
  for (ChildProcess* const process : started) {
    process->confirm(static_cast<int>(1e3 * std::max(0.0, begin_s + kMoment_s - steady_s())));
  }
  return supervise(std::move(children), begin_s, spec.ranks_per_process, channels, options);
}

SuperviseResult supervise(Children children, double begin_s, int ranks_per_process,
                          RankChannels& channels, const SuperviseOptions& options) {
  return Supervision(std::move(children), begin_s, ranks_per_process, channels, options).run();
}

}  // namespace ddpbench::launch
