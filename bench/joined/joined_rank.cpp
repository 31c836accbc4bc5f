// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/terminal.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/joined_verdict.h"
#include "bench/plan/run_plan.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_session.h"
#include "bench/run/launch_run.h"

namespace ddpbench::bench {
namespace {

// The keys of the store.
constexpr const char* kPlanKey = "joined/plan";
constexpr const char* kChannelsKey = "joined/channels";
constexpr const char* kGpusKey = "joined/gpus_known";
constexpr const char* kFinishedKey = "joined/finished";
constexpr const char* kWrittenKey = "joined/written";

constexpr double kAwaitSilence_s = 0.5;
// After a failure: for the cause to show, where ranks have only noticed it, and for others to end.
constexpr double kSettle_s = 2;
// How often a rank that was interrupted looks for the cause.
constexpr double kLookForCause_s = 0.05;

}  // namespace

JoinedRank::JoinedRank(Options options, const launch::RankEnvironment& environment)
    : options_(std::move(options)),
      environment_(environment),
      peers_(environment, wait_limit_s(options_.timeout_s), options_.interface),
      // Until all have agreed, only this rank's area is used, for its error.
      channels_(
          launch::RankChannels::create({.ranks = environment.world_size, .result_capacity = 64})),
      writer_(channels_.writer(environment.rank)) {}

double JoinedRank::limit_s() const { return wait_limit_s(options_.timeout_s); }

int JoinedRank::run() {
  catch_interrupts();
  try {
    meet_and_plan();
    agree();
    return work();
  } catch (const std::exception& error) {
    if (!agreed_ && is_refusal(error)) throw;  // nothing was begun
    const int exit_code = fail(error);
    if (left_behind_ || leaves_thread_behind(error)) end_process(exit_code);
    return exit_code;
  }
}

// A rank that cannot take part tells the others why.
void JoinedRank::meet_and_plan() {
  if (!is_alone()) peers_.join(asked());
  try {
    plan_for(find_world_devices());
    if (is_first()) report().choose_place(options_);
  } catch (const Error& error) {
    store_.excuse(kPlanKey, error);
    throw;
  }
}

// The ranks of GPUs tell each other which they see.
bool JoinedRank::shares_gpus_with_peers() const {
  return options_.device != "cpu" && !is_alone() && workers() >= 1;
}

// Returns what all ranks together have. All must know whether they are on GPUs, so ranks that see
// none tell it, too. Servers on CPU devices need no GPU.
HostDevices JoinedRank::find_world_devices() {
  HostDevices host = find_devices(options_.device);
  if (!shares_gpus_with_peers()) return host;
  JoinedGpus gpus = assign_gpus(exchange_gpus(*store_.get(), environment_.rank, workers(),
                                              {environment_.local_rank, host.cuda}, limit_s()));
  store_.wait_for_all(kGpusKey);  // rank 0 may be about to refuse
  host.cuda = gpus.world;
  if (!host.cuda.devices.empty()) own_gpus_ = std::move(gpus);
  return host;
}

void JoinedRank::plan_for(const HostDevices& host) {
  plan(host);
  planned_ = true;
  if (options_.device == "cuda") gpus_of_world_ = host;
}

void JoinedRank::take_own_gpu(std::vector<int>& gpus) const {
  const auto rank = static_cast<std::size_t>(environment_.rank);
  if (own_gpus_ && rank < gpus.size()) gpus[rank] = own_gpus_->ordinals.at(rank);
}

// The ranks make sure that they have planned the same run, and map the channels that rank 0 makes.
void JoinedRank::agree() {
  if (is_first()) use(launch::RankChannels::create(layout()));
  if (is_alone()) {
    reserve_report();
  } else {
    nlohmann::json plan = plan_json(planned());
    plan["cores"] = cores();
    std::vector<PlacedRank> placed{{0, cores()}};
    const auto hear = [&](int rank, const nlohmann::json& said) {
      const std::string differs = disagreement(rank, said, 0, plan);
      const JoinedHosts& hosts = peers_.hosts();
      placed.push_back({hosts.of(rank), said.at("cores")});
      if (differs.empty()) return;
      throw ConfigError(fmt::format(
          "the ranks have planned different runs: {}{}; they need the same files and devices",
          differs,
          hosts.are_several() ? fmt::format(" ({}, {})", hosts.words(rank), hosts.words(0)) : ""));
    };
    const auto reply = [&]() -> nlohmann::json {
      reserve_report();
      return {{"channels", channels_.handle()},
              {"report", peers_.board()->report_path()},
              {"shares_cores", share_cores(placed)}};
    };
    const nlohmann::json agreed = store_.meet(kPlanKey, plan, hear, reply);
    shares_cores_ = agreed.at("shares_cores");
    open_channels(agreed);
  }
  agreed_ = true;
}

void JoinedRank::use(launch::RankChannels channels) {
  channels_ = std::move(channels);
  writer_ = channels_.writer(environment_.rank);  // the old one's memory is gone
}

// Ranks of other hosts have channels of their own, which rank 0's follow.
void JoinedRank::open_channels(const nlohmann::json& agreed) {
  const std::string key = peers_.host_key(kChannelsKey);
  if (is_first()) {
    store_.share(key, channels_.handle());
  } else if (peers_.makes_for_host()) {
    use(launch::RankChannels::create(layout()));
    peers_.board()->tell_report_path(agreed.at("report"));
    peers_.board()->mark_reserved();  // rank 0 has made it
    store_.share(key, channels_.handle());
  } else {
    use(launch::RankChannels::open(store_.await(key), layout()));
  }
  peers_.mirror_records(channels_);
}

WorldOptions JoinedRank::engine_limits() {
  WorldOptions limits;
  limits.timeout_s = limit_s();
  limits.check = [this] { peers_.check(); };
  return limits;
}

void JoinedRank::guarded(std::vector<comm::Communicator*> communicators, HangGuard* guard,
                         const std::function<void()>& body) {
  try {
    const EndWatch watch(
        std::move(communicators), [this] { return peers_.reason_to_end(); }, guard);
    body();
  } catch (...) {
    if (guard != nullptr) guard->expect_end(std::current_exception());
    throw;
  }
}

int JoinedRank::complete() {
  int exit_code = 0;
  if (!is_first()) peers_.exchange_records();
  store_.wait_for_all(kFinishedKey);
  if (is_first()) peers_.exchange_records();
  if (JoinedBoard* const board = peers_.board()) board->mark_complete();
  if (is_first()) {
    if (options_.dry_run) say("1 run checked: all can start.\n");
    if (!options_.dry_run) exit_code = finish_report();
    peers_.tell_written();
  }
  store_.wait_for_all(kWrittenKey);
  return exit_code;
}

// Where the report could not be written, the run has not failed.
int JoinedRank::finish_report() {
  try {
    return report().finish(planned_, {});
  } catch (const ConfigError& unwritable) {
    say_error("ddpbench: rank {}: {}\n", environment_.rank, unwritable.what());
    return unwritable.exit_code();
  }
}

void JoinedRank::guard_hangs(const std::string& backend, std::optional<HangGuard>& guard) {
  if (!may_hang(backend, environment_)) return;
  guard.emplace(
      options_.timeout_s, [this] { return channels_.status(environment_.rank).pending; },
      [this](const std::exception& error) { end_hanging(error); });
}

void JoinedRank::end_hanging(const std::exception& error) {
  int exit_code = 0;
  try {
    exit_code = fail(error);
  } catch (const std::exception& unwritable) {
    const Failure failure = failure_of(unwritable);
    say_error("ddpbench: rank {}: {}\n", environment_.rank, failure.message);
    exit_code = failure.exit_code;
  }
  end_process(exit_code);
}

int JoinedRank::fail(const std::exception& error) {
  failed_s_ = steady_s();
  peers_.is_told_to_end();  // a signal may be why
  const bool may_have_cause = dynamic_cast<const CommError*>(&error) != nullptr ||
                              dynamic_cast<const Interrupted*>(&error) != nullptr;
  if (may_have_cause) peers_.await_news();
  report_error(writer_, error);
  const launch::RankError own = *channels_.status(environment_.rank).error;
  say_error("ddpbench: rank {}: {}\n", environment_.rank, error.what());
  peers_.mark_failed();
  // A dry run makes no report to wait for, so the ranks that find the same error get time to say
  // so.
  if (options_.dry_run && agreed_) peers_.settle(channels_, kSettle_s);
  Verdict verdict = judge(error);
  // A rank that the others miss is known once these have said so: before the first of them ends, as
  // a launcher then lets a stopped rank go on.
  if (!verdict.certain && agreed_ && peers_.hosts().are_several()) {
    peers_.settle(channels_, kAwaitSilence_s);
    verdict = judge(error);
  }
  try {
    if (!options_.dry_run && peers_.takes_report()) {
      report_failure(error, verdict);
    } else {
      // Another has written the report, and the cause may have shown.
      if (!verdict.result.interrupted) take_later(verdict, judge(error));
    }
  } catch (const ConfigError& unwritable) {
    if (is_first()) throw;
    say_error("ddpbench: rank {}: {}\n", environment_.rank, unwritable.what());
  }
  const bool interrupted = verdict.result.interrupted ||
                           (!verdict.result.failure && own.kind == "interrupted") ||
                           (environment_.launcher == "environment" && is_given_up_by_signal(error));
  return interrupted ? 130 : failure_exit_code(own);
}

// Whether a rank of rank 0's host has told of the failure.
bool JoinedRank::is_told() {
  return peers_.defers_to_rank_0() && JoinedReport::tells_failure(peers_.board()->report_path());
}

// The report is written at once, because a launcher may kill this process as soon as another has
// ended. It is completed later.
void JoinedRank::report_failure(const std::exception& error, Verdict& verdict) {
  if (is_told()) return;
  prepare_report();
  report().fill(planned_, verdict.result);
  if (is_told()) return;  // it was said in the meantime
  report().save();
  peers_.tell_written();
  if (agreed_ && verdict.result.interrupted && await_cause(error, verdict)) {
    report().fill(planned_, verdict.result);
    report().save();
  }
  const bool is_killed_soon = verdict.result.interrupted && environment_.launcher == "mpirun";
  if (agreed_) peers_.settle(channels_, is_killed_soon ? left_before_kills_s() : kSettle_s);
  if (!verdict.result.interrupted) take_later(verdict, judge(error));
  note_memory_kill(memory_kills_, verdict.result);
  if (peers_.defers_to_rank_0() && report().was_replaced()) return;
  report().finish(planned_, verdict.result);
  if (agreed_) report().send_trace();
}

// A launcher that has lost a rank of another host asks the others to end, and these may hear of the
// loss later. Whom it kills has not failed. Returns whether the verdict is another one.
bool JoinedRank::await_cause(const std::exception& error, Verdict& verdict) {
  bool settled = false;
  while (!settled && verdict.result.interrupted && left_before_kills_s() > 0) {
    settled = peers_.settle(channels_, std::min(kLookForCause_s, left_before_kills_s()));
    take_later(verdict, judge(error));
  }
  return !verdict.result.interrupted;
}

Verdict JoinedRank::judge(const std::exception& error) const {
  const auto* const known = dynamic_cast<const WorldFailure*>(&error);
  const WorldView world = peers_.look(channels_);
  if (agreed_ || known == nullptr) return judge_world(world);
  return judge_meeting(world, *known, *channels_.status(environment_.rank).error);
}

// On rank 0, when all ranks have planned the same. Where another command was faster, all refuse.
void JoinedRank::reserve_report() {
  if (options_.dry_run) return;
  prepare_report();
  report().reserve(peers_.board());
}

void JoinedRank::prepare_report() {
  if (report().has_begun()) return;
  if (!planned_) {
    try {
      plan_for(find_devices(options_.device));
    } catch (const Error&) {
      // The report then has no run, only the error.
    }
  }
  report().begin(options_, gpus_of_world_ ? &*gpus_of_world_ : nullptr, peers_);
}

}  // namespace ddpbench::bench
