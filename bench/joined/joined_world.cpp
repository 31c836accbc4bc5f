// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/exhausted.h"
#include "bench/host/host_devices.h"
#include "bench/host/interrupt.h"
#include "bench/host/memory_groups.h"
#include "bench/host/terminal.h"
#include "bench/joined/end_watch.h"
#include "bench/joined/joined_board.h"
#include "bench/joined/joined_engine.h"
#include "bench/joined/joined_gpus.h"
#include "bench/joined/joined_peers.h"
#include "bench/joined/joined_placement.h"
#include "bench/joined/joined_plan.h"
#include "bench/joined/joined_report.h"
#include "bench/joined/joined_shares.h"
#include "bench/joined/joined_verdict.h"
#include "bench/plan/data_places.h"
#include "bench/plan/fit_command.h"
#include "bench/plan/injection_reach.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_error.h"
#include "bench/rank/rank_session.h"
#include "bench/run/host_clocks.h"
#include "bench/run/launch_run.h"
#include "kernels/nn/model/model_reader.h"
#include "parallel/comm_backends.h"

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

class JoinedWorld {
 public:
  JoinedWorld(Options options, const launch::RankEnvironment& environment,
              const std::vector<std::string>& arguments, ReportReader reader);
  JoinedWorld(const JoinedWorld&) = delete;
  JoinedWorld& operator=(const JoinedWorld&) = delete;
  // Until here the peers read and write the channels.
  ~JoinedWorld() { peers_.leave(); }
  int run();

 private:
  bool is_first() const { return environment_.rank == 0; }
  bool is_alone() const { return environment_.world_size == 1; }
  void meet_and_plan();
  bool shares_gpus_with_peers() const;
  HostDevices find_world_devices();
  void plan(const HostDevices& host);
  void place_on_own_gpus();
  void take_own_gpu();
  void agree();
  void open_channels(const nlohmann::json& agreed, const launch::ChannelLayout& layout);
  void share_inputs();
  int train();
  std::unique_ptr<RankSession> make_session(const RankInputs& inputs, HangGuard* guard);
  int finish_report();
  void guard_hangs(std::optional<HangGuard>& guard);
  [[noreturn]] void end_hanging(const std::exception& error);

  int fail(const std::exception& error);
  bool is_told();
  void report_failure(const std::exception& error, Verdict& verdict);
  bool await_cause(const std::exception& error, Verdict& verdict);
  double left_before_kills_s() const { return peers_.left_before_kills_s(failed_s_); }
  Verdict judge(const std::exception& error) const;
  void prepare_report();
  void reserve_report();
  const TrainingJob* job() const { return planned_ ? &job_ : nullptr; }

  Options options_;
  launch::RankEnvironment environment_;
  JoinedReport report_;
  Progress progress_;
  JoinedPeers peers_;
  JoinedStore& store_ = peers_.store();
  std::unique_ptr<data::DatasetSource> source_;
  nn::ModelSpec model_;
  std::string weights_note_;  // how the names of --load-model are read; empty: as they are
  std::string dataset_note_;  // why the data set is synthetic; empty: it was asked for, or is not
  TrainingJob job_;
  std::optional<JoinedGpus> own_gpus_;        // set where several processes have GPUs
  std::optional<HostDevices> gpus_of_world_;  // set on GPUs
  bool planned_ = false;                      // job_ is made
  bool agreed_ = false;                       // all ranks have made it, and map channels_
  MemoryKills memory_kills_ = read_memory_kills();
  SharedMemory dataset_;
  std::optional<ReferenceWeights> reference_;
  launch::RankChannels channels_;  // of all ranks
  launch::RankWriter writer_;
  bool left_behind_ = false;  // a session whose device hangs was left behind
  double failed_s_ = 0;       // when fail() began
};

JoinedWorld::JoinedWorld(Options options, const launch::RankEnvironment& environment,
                         const std::vector<std::string>& arguments, ReportReader reader)
    : options_(std::move(options)),
      environment_(environment),
      report_(arguments, reader, environment.launcher),
      progress_(Progress::style_for_stdout(options_.quiet || !is_first())),
      peers_(environment, wait_limit_s(options_.timeout_s), options_.interface),
      // Until all have agreed, only this rank's area is used, for its error.
      channels_(
          launch::RankChannels::create({.ranks = environment.world_size, .result_capacity = 64})),
      writer_(channels_.writer(environment.rank)) {}

int JoinedWorld::run() {
  refuse_lists(options_);
  catch_interrupts();
  try {
    meet_and_plan();
    agree();
    prepare_engine(job_, options_, environment_, peers_.hosts());
    share_inputs();
    comm::EngineOptions limits;
    limits.timeout_s = wait_limit_s(options_.timeout_s);
    limits.check = [this] { peers_.check(); };
    finish_engine(job_, environment_, limits);
    return train();
  } catch (const std::exception& error) {
    if (!agreed_ && is_refusal(error)) throw;  // no run was begun
    const int exit_code = fail(error);
    if (left_behind_ || leaves_thread_behind(error)) end_process(exit_code);
    return exit_code;
  }
}

// A rank that cannot take part tells the others why.
void JoinedWorld::meet_and_plan() {
  if (!is_alone()) peers_.join(option_values(options_, environment_));
  try {
    plan(find_world_devices());
    if (is_first()) report_.choose_place(options_);
  } catch (const Error& error) {
    store_.excuse(kPlanKey, error);
    throw;
  }
}

// The ranks of GPUs tell each other which they see.
bool JoinedWorld::shares_gpus_with_peers() const {
  const int workers = environment_.world_size - cpu_servers(options_);
  return options_.device != "cpu" && !is_alone() && workers >= 1;
}

// Returns what all ranks together have. All must know whether they are on GPUs, so ranks that see
// none tell it, too. Servers on CPU devices need no GPU.
HostDevices JoinedWorld::find_world_devices() {
  HostDevices host = find_devices(options_.device);
  if (!shares_gpus_with_peers()) return host;
  const int workers = environment_.world_size - cpu_servers(options_);
  JoinedGpus gpus = assign_gpus(exchange_gpus(*store_.get(), environment_.rank, workers,
                                              {environment_.local_rank, host.cuda},
                                              wait_limit_s(options_.timeout_s)));
  store_.wait_for_all(kGpusKey);  // rank 0 may be about to refuse
  host.cuda = gpus.world;
  if (!host.cuda.devices.empty()) own_gpus_ = std::move(gpus);
  return host;
}

void JoinedWorld::plan(const HostDevices& host) {
  const DeviceChoice choice = choose_device(options_, host);
  options_.device = choice.device;
  options_.server_device = choice.server_device;
  options_.precision = choice.precision;
  const RunCell cell =
      joined_cell(options_, environment_.world_size, device_count(host, choice.device));
  if (peers_.hosts().are_several()) {
    const std::string device = backend_device(options_, cell.servers);
    options_.backend = backend_over_hosts(options_.backend, device, peers_.hosts());
  }
  if (options_.device == "cpu") options_.backend = choose_backend(options_.backend, "cpu", false);
  const std::string model_path = find_model(options_.model);
  model_ = nn::load_model_file(model_path);
  dataset_note_ = resolve_dataset(options_, model_);
  source_ = open_data(options_, model_);
  const data::DatasetInfo dataset = describe_data(*source_, options_);
  check_dataset_fits(model_, dataset, model_path);
  check_normalization(options_, dataset);
  check_test_samples(options_, dataset);
  weights_note_ = check_checkpoint(options_, model_);
  job_ = make_training_job(options_, cell, dataset, network_of(model_, model_path), host);
  check_injections({job_}, model_);
  place_on_own_gpus();
  if (options_.backend == "auto" || options_.backend == kBackendAlias) {
    options_.backend = common_backend({job_});
  }
  job_.verification_tolerance = tolerance_for(job_, model_);
  if (needs_reference(job_)) ReferenceWeights::extent_of(job_, model_);  // or it throws
  place_rank(job_, environment_, peers_.hosts(), host.cpu);
  take_own_gpu();
  planned_ = true;
  if (options_.device == "cuda") gpus_of_world_ = host;
}

// The plan gives GPUs to processes in turn; here each process gets the one that it sees.
void JoinedWorld::place_on_own_gpus() {
  if (!own_gpus_ || job_.gpus.empty()) return;
  const CommBackend* const backend = find_comm_backend(job_.backend);
  if (backend != nullptr && backend->maps_peers && !own_gpus_->unseen.empty()) {
    const auto other = std::ranges::find_if(comm_backends(), [](const CommBackend& row) {
      return row.devices == DeviceKind::cuda && !row.maps_peers;
    });
    throw UnavailableError(
        fmt::format("the backend {} maps the memory of peers, but {}: have the launcher show every "
                    "rank all GPUs of its host, or use --backend={} with a GPU for each rank",
                    job_.backend, own_gpus_->unseen, other->name));
  }
  std::ranges::copy_n(own_gpus_->numbers.begin(), std::ssize(job_.gpus), job_.gpus.begin());
}

// Turns the world's number of this process's GPU into its own number. The plan is not asked later.
void JoinedWorld::take_own_gpu() {
  if (!own_gpus_ || !job_.is_on_gpu(environment_.rank)) return;
  const auto rank = static_cast<std::size_t>(environment_.rank);
  job_.gpus.at(rank) = own_gpus_->ordinals.at(rank);
}

// The ranks make sure that they have planned the same run, and map the channels that rank 0 makes.
void JoinedWorld::agree() {
  const auto layout = channel_layout(job_, model_);
  if (is_first()) channels_ = launch::RankChannels::create(layout);
  if (is_alone()) {
    reserve_report();
  } else {
    const nlohmann::json plan = plan_json(job_values(job_, layout));
    const auto hear = [&](int rank, const nlohmann::json& said) {
      const std::string differs = disagreement(rank, said.at("plan"), 0, plan);
      if (differs.empty()) return;
      const JoinedHosts& hosts = peers_.hosts();
      throw ConfigError(fmt::format(
          "the ranks have planned different runs: {}{}; give them the same data and devices",
          differs,
          hosts.are_several() ? fmt::format(" ({}, {})", hosts.words(rank), hosts.words(0)) : ""));
    };
    const auto reply = [&]() -> nlohmann::json {
      reserve_report();
      return {{"channels", channels_.handle()}, {"report", peers_.board()->report_path()}};
    };
    open_channels(store_.meet(kPlanKey, {{"plan", plan}}, hear, reply), layout);
  }
  writer_ = channels_.writer(environment_.rank);
  agreed_ = true;
}

// Ranks of other hosts have channels of their own, which rank 0's follow.
void JoinedWorld::open_channels(const nlohmann::json& agreed, const launch::ChannelLayout& layout) {
  const std::string key = peers_.host_key(kChannelsKey);
  if (is_first()) {
    store_.share(key, channels_.handle());
  } else if (peers_.makes_for_host()) {
    channels_ = launch::RankChannels::create(layout);
    peers_.board()->tell_report_path(agreed.at("report"));
    peers_.board()->mark_reserved();  // rank 0 has made it
    store_.share(key, channels_.handle());
  } else {
    channels_ = launch::RankChannels::open(store_.await(key), layout);
  }
  peers_.mirror_records(channels_);
}

void JoinedWorld::share_inputs() {
  dataset_ = share_dataset(peers_, *source_);
  if (!needs_reference(job_)) return;
  const double limit_s = wait_limit_s(options_.timeout_s);
  reference_ = share_reference(peers_, {job_, model_, dataset_, progress_, limit_s});
  if (reference_) job_.reference_fd = 0;  // there is one; each rank maps it in its own way
}

int JoinedWorld::train() {
  RankInputs inputs;
  inputs.rank = environment_.rank;
  inputs.store = store_.get();
  inputs.decoded = dataset_.view().as<const std::byte>();
  inputs.reference = reference_ ? &*reference_ : nullptr;
  inputs.interrupted = [this] { return peers_.is_told_to_end(); };
  inputs.check = [this] { peers_.check(); };
  inputs.advise = [this](const DoesNotFit& refused) {
    return fit_advice(job_, refused.free_bytes() / refused.claims());
  };
  if (peers_.hosts().are_several()) {
    inputs.address = store_.own_address();
    inputs.host = peers_.hosts().name(environment_.rank);
    const bool measures =
        peers_.makes_for_host() && !peers_.hosts().share_one(environment_.rank, 0);
    if (measures) inputs.read_clock = [this] { return read_clock(*store_.get()); };
  }
  if (is_first()) {
    report_.note_start();
    if (!dataset_note_.empty()) say("{}\n", dataset_note_);
    say("{}\n", data_note(job_.dataset, options_));
    if (!weights_note_.empty()) say("{}\n", weights_note_);
    if (options_.dry_run) say("{}\n", plan_line(job_, find_devices("cpu").cpu.cores.size()));
    if (!options_.dry_run && !options_.quiet) say("{}\n", job_.title);
  }
  int exit_code = 0;
  std::optional<HangGuard> guard;  // outlives the session, whose end may hang, too
  guard_hangs(guard);
  const auto body = [&](RankSession& session) {
    report_.note_set_up();
    try {
      const EndWatch watch(
          session.peers(), [this] { return peers_.reason_to_end(); }, guard ? &*guard : nullptr);
      session.run();
    } catch (...) {
      if (guard) guard->expect_end(std::current_exception());
      throw;
    }
    if (!is_first()) peers_.exchange_records();
    store_.wait_for_all(kFinishedKey);
    if (is_first()) peers_.exchange_records();
    if (JoinedBoard* const board = peers_.board()) board->mark_complete();
    if (is_first()) {
      if (options_.dry_run) say("{}", rehearsed_words(1));
      if (!options_.dry_run) exit_code = finish_report();
      peers_.tell_written();
    }
    store_.wait_for_all(kWrittenKey);
  };
  run_session(make_session(inputs, guard ? &*guard : nullptr), body, left_behind_);
  if (is_first() && !options_.dry_run) report_.send_trace(job_, channels_);
  return exit_code;
}

// What a library does until its ranks are connected may hang, too.
std::unique_ptr<RankSession> JoinedWorld::make_session(const RankInputs& inputs, HangGuard* guard) {
  const EndWatch watch(
      {}, [this] { return peers_.reason_to_end(); }, guard);
  return std::make_unique<RankSession>(job_, inputs, writer_);
}

// Where the report could not be written to its place, it is elsewhere, and the run has not failed.
int JoinedWorld::finish_report() {
  try {
    return report_.finish(job(), channels_, {});
  } catch (const ConfigError& unwritable) {
    say_error("ddpbench: rank {}: {}\n", environment_.rank, unwritable.what());
    return unwritable.exit_code();
  }
}

void JoinedWorld::guard_hangs(std::optional<HangGuard>& guard) {
  if (!may_hang(job_, environment_)) return;
  guard.emplace(
      options_.timeout_s, [this] { return channels_.status(environment_.rank).pending; },
      [this](const std::exception& error) { end_hanging(error); });
}

void JoinedWorld::end_hanging(const std::exception& error) {
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

int JoinedWorld::fail(const std::exception& error) {
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
bool JoinedWorld::is_told() {
  return peers_.defers_to_rank_0() && JoinedReport::tells_failure(peers_.board()->report_path());
}

// The report is written at once, because a launcher may kill this process as soon as another has
// ended. It is completed later.
void JoinedWorld::report_failure(const std::exception& error, Verdict& verdict) {
  if (is_told()) return;
  prepare_report();
  report_.fill(job(), channels_, verdict.result);
  if (is_told()) return;  // it was said in the meantime
  report_.save();
  peers_.tell_written();
  if (agreed_ && verdict.result.interrupted && await_cause(error, verdict)) {
    report_.fill(job(), channels_, verdict.result);
    report_.save();
  }
  const bool is_killed_soon = verdict.result.interrupted && environment_.launcher == "mpirun";
  if (agreed_) peers_.settle(channels_, is_killed_soon ? left_before_kills_s() : kSettle_s);
  if (!verdict.result.interrupted) take_later(verdict, judge(error));
  note_memory_kill(memory_kills_, verdict.result);
  if (peers_.defers_to_rank_0() && report_.was_replaced()) return;
  report_.finish(job(), channels_, verdict.result);
  if (agreed_) report_.send_trace(job_, channels_);
}

// A launcher that has lost a rank of another host asks the others to end, and these may hear of the
// loss later. Whom it kills has not failed. Returns whether the verdict is another one.
bool JoinedWorld::await_cause(const std::exception& error, Verdict& verdict) {
  bool settled = false;
  while (!settled && verdict.result.interrupted && left_before_kills_s() > 0) {
    settled = peers_.settle(channels_, std::min(kLookForCause_s, left_before_kills_s()));
    take_later(verdict, judge(error));
  }
  return !verdict.result.interrupted;
}

Verdict JoinedWorld::judge(const std::exception& error) const {
  const auto* const known = dynamic_cast<const WorldFailure*>(&error);
  const WorldView world = peers_.look(channels_);
  if (agreed_ || known == nullptr) return judge_world(world);
  return judge_meeting(world, *known, *channels_.status(environment_.rank).error);
}

// On rank 0, when all ranks have planned the same. Where another command was faster, all refuse.
void JoinedWorld::reserve_report() {
  if (options_.dry_run) return;
  prepare_report();
  report_.reserve(peers_.board());
}

void JoinedWorld::prepare_report() {
  if (report_.has_begun()) return;
  if (!planned_) {
    try {
      plan(find_devices(options_.device));
    } catch (const Error&) {
      // The report then has no run, only the error.
    }
  }
  report_.begin(options_, gpus_of_world_ ? &*gpus_of_world_ : nullptr, peers_);
}

}  // namespace

int join_world(Options options, const launch::RankEnvironment& environment,
               const std::vector<std::string>& arguments, ReportReader reader) {
  options.local_rank.reset();  // environment has it; it is no part of the configuration
  return JoinedWorld(std::move(options), environment, arguments, reader).run();
}

}  // namespace ddpbench::bench
