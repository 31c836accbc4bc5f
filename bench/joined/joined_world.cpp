// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/environment_capture.h"
#include "bench/host/interrupt.h"
#include "bench/host/machine_snapshot.h"
#include "bench/host/memory_groups.h"
#include "bench/host/terminal.h"
#include "bench/joined/joined_board.h"
#include "bench/joined/joined_gpus.h"
#include "bench/joined/joined_peers.h"
#include "bench/joined/joined_plan.h"
#include "bench/joined/joined_verdict.h"
#include "bench/plan/data_places.h"
#include "bench/plan/injection_reach.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_error.h"
#include "bench/rank/rank_session.h"
#include "bench/run/launch_run.h"
#include "bench/run/report_output.h"
#include "bench/run/run_collector.h"
#include "bench/run/run_trace.h"
#include "kernels/nn/model/model_reader.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {
namespace {

// The keys of the store.
constexpr const char* kPlanKey = "joined/plan";
constexpr const char* kDatasetKey = "joined/dataset";
constexpr const char* kReferenceKey = "joined/reference";
constexpr const char* kGpusKey = "joined/gpus_known";
constexpr const char* kFinishedKey = "joined/finished";
constexpr const char* kWrittenKey = "joined/written";

// The other ranks are not children of this process. Their use is not known here, and must not count
// as load of other programs.
void fill_joined_conditions(report::Run& run, report::MachineSnapshot before, int processes) {
  if (processes > 1) {
    before.own_busy_s.reset();
    before.own_major_page_faults.reset();
    before.own_involuntary_switches.reset();
  }
  report::fill_conditions(run, before, take_machine_snapshot());
  if (processes == 1) return;
  const auto unknown =
      report::Figure::missing("a launcher started the ranks, and only rank 0's own use is known");
  run.conditions->other_load_ratio = unknown;
  run.conditions->major_page_faults = unknown;
  run.conditions->involuntary_context_switches = unknown;
}

// Whether the user's input, or something that is not here, is the reason.
bool is_refusal(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  return known != nullptr && (known->exit_code() == ConfigError("").exit_code() ||
                              known->exit_code() == UnavailableError("").exit_code());
}

[[noreturn]] void throw_reference_failure(const launch::RankError& error) {
  const std::string message = "the reference to verify against failed: " + error.message;
  const int code = failure_exit_code(error);
  if (code == ConfigError("").exit_code()) throw ConfigError(message);
  if (code == UnavailableError("").exit_code()) throw UnavailableError(message);
  throw InternalError(message);
}

class JoinedWorld {
 public:
  JoinedWorld(Options options, const launch::RankEnvironment& environment,
              const std::vector<std::string>& arguments);
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
  void place(const CpuTopology& topology);
  void agree();
  void share_dataset();
  void share_reference();
  int train();

  int fail(const std::exception& error);
  void report_failure(const std::exception& error, Verdict& verdict);
  Verdict judge(const std::exception& error) const;
  void prepare_report();
  void reserve_report();
  void fill_report(const launch::SuperviseResult& result);
  int write(const launch::SuperviseResult& result);

  Options options_;
  launch::RankEnvironment environment_;
  std::vector<std::string> arguments_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Progress progress_;
  JoinedPeers peers_;
  JoinedStore& store_ = peers_.store();
  std::unique_ptr<data::DatasetSource> source_;
  nn::ModelSpec model_;
  std::string dataset_note_;  // why the data set is synthetic; empty: it was asked for, or is not
  TrainingJob job_;
  std::optional<JoinedGpus> own_gpus_;        // set where several processes have GPUs
  std::optional<HostDevices> gpus_of_world_;  // set on GPUs
  bool planned_ = false;                      // job_ is made
  bool agreed_ = false;                       // all ranks have made it, and map channels_
  ReportOutput file_;
  report::Report report_;
  report::Trace trace_;
  std::string started_at_ = utc_timestamp();
  std::optional<report::MachineSnapshot> before_;  // on rank 0, taken when training begins
  MemoryKills memory_kills_ = read_memory_kills();
  SharedMemory dataset_;
  std::optional<ReferenceWeights> reference_;
  launch::RankChannels channels_;  // of all ranks
  launch::RankWriter writer_;
  bool left_behind_ = false;  // a session whose device hangs was left behind
  double startup_s_ = 0;      // from the construction of this object to the first step
};

JoinedWorld::JoinedWorld(Options options, const launch::RankEnvironment& environment,
                         const std::vector<std::string>& arguments)
    : options_(std::move(options)),
      environment_(environment),
      arguments_(arguments),
      progress_(Progress::style_for_stdout(options_.quiet || !is_first())),
      peers_(environment, wait_limit_s(options_.timeout_s)),
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
    share_dataset();
    share_reference();
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
    if (is_first()) file_ = ReportOutput(options_);  // with --dry-run it only looks
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
  if (options_.device == "cpu") options_.backend = choose_backend(options_.backend, "cpu", false);
  const std::string model_path = find_model(options_.model);
  model_ = nn::load_model_file(model_path);
  dataset_note_ = resolve_dataset(options_, model_);
  source_ = open_data(options_, model_);
  const data::DatasetInfo dataset = describe_data(*source_, options_);
  check_dataset_fits(model_, dataset, model_path);
  check_normalization(options_, dataset);
  check_test_samples(options_, dataset);
  job_ = make_training_job(options_, cell, dataset, network_of(model_, model_path), host);
  check_injections({job_}, model_);
  place_on_own_gpus();
  if (options_.backend == "auto" || options_.backend == kBackendAlias) {
    options_.backend = common_backend({job_});
  }
  job_.verification_tolerance = tolerance_for(job_, model_);
  if (needs_reference(job_)) ReferenceWeights::extent_of(job_, model_);  // or it throws
  place(host.cpu);
  take_own_gpu();
  planned_ = true;
  if (options_.device == "cuda") gpus_of_world_ = host;
}

// The plan gives GPUs to processes in turn; here each process gets the one that it sees.
void JoinedWorld::place_on_own_gpus() {
  if (!own_gpus_ || job_.gpus.empty()) return;
  const CommBackend* const backend = find_comm_backend(job_.backend);
  if (backend != nullptr && backend->maps_peers && !own_gpus_->unseen.empty()) {
    throw UnavailableError(
        fmt::format("the backend {} maps the memory of peers, but {}: have the launcher show every "
                    "rank all GPUs of "
                    "its host, or use --backend=nccl with a GPU for each rank",
                    job_.backend, own_gpus_->unseen));
  }
  std::ranges::copy_n(own_gpus_->numbers.begin(), std::ssize(job_.gpus), job_.gpus.begin());
}

// Turns the world's number of this process's GPU into its own number. The plan is not asked later.
void JoinedWorld::take_own_gpu() {
  if (!own_gpus_ || !job_.is_on_gpu(environment_.rank)) return;
  const auto rank = static_cast<std::size_t>(environment_.rank);
  job_.gpus.at(rank) = own_gpus_->ordinals.at(rank);
}

// Each rank places itself. An external launcher that bound it to cores (mpirun) has decided;
// otherwise the ranks divide the host as the supervisor would.
void JoinedWorld::place(const CpuTopology& topology) {
  const int devices = job_.cell.servers + (job_.has_cpu_servers() ? 0 : job_.cell.world_size);
  const bool bound = static_cast<int>(topology.cores.size()) <
                     std::min(devices * options_.threads_per_device,
                              static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  if (!bound || environment_.world_size == 1) return;
  const CpuPlacement own = place_cpu_devices(topology, 1, options_.threads_per_device);
  job_.cores.at(static_cast<std::size_t>(environment_.rank)) = own.device_cores[0];
  if (job_.gpus.empty()) job_.oversubscribed = own.oversubscribed;
  // The launcher dealt out the cores, and each rank sees only its own.
  if (job_.has_cpu_servers()) job_.oversubscribed = shares_gpus(job_);
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
      throw ConfigError(fmt::format(
          "the ranks have planned different runs: {}; give them the same data and devices",
          differs));
    };
    const auto reply = [&]() -> nlohmann::json {
      reserve_report();
      return {{"channels", channels_.handle()}};
    };
    const nlohmann::json agreed = store_.meet(kPlanKey, {{"plan", plan}}, hear, reply);
    if (!is_first()) channels_ = launch::RankChannels::open(agreed.at("channels"), layout);
  }
  writer_ = channels_.writer(environment_.rank);
  agreed_ = true;
}

void JoinedWorld::share_dataset() {
  if (is_first()) {
    dataset_ = SharedMemory::create("ddpbench-dataset", source_->info().decoded_bytes(), true);
    source_->decode(dataset_.view().as<std::byte>());
    dataset_.seal();
    store_.share(kDatasetKey, dataset_.handle());
  } else {
    dataset_ = SharedMemory::open(peers_.await_made(kDatasetKey));
  }
}

// Rank 0 runs the reference in a process of its own; the others wait for it.
void JoinedWorld::share_reference() {
  if (!needs_reference(job_)) return;
  const bool is_made = !options_.dry_run;  // else it is only set up, as all are
  if (is_made) job_.reference_fd = 0;      // a reference exists; each rank maps it in its own way
  if (!is_first()) {
    const std::string handle = peers_.await_made(kReferenceKey);
    if (is_made) reference_ = ReferenceWeights::open(handle);
    return;
  }
  TrainingJob reference = reference_job(job_);
  reference.dataset_fd = dataset_.fd();
  if (is_made) {
    reference_ = ReferenceWeights::create(ReferenceWeights::extent_of(job_, model_));
    reference.reference_fd = reference_->fd();
  }
  auto channels = launch::RankChannels::create(channel_layout(reference, model_));
  const auto result = launch_run(reference, channels, progress_,
                                 [this] { return !peers_.reason_to_end().empty(); });
  if (result.interrupted) {
    peers_.check();
    throw Interrupted("interrupted");
  }
  if (result.failure) throw_reference_failure(result.failure->error);
  store_.share(kReferenceKey, is_made ? reference_->handle() : "");
}

int JoinedWorld::train() {
  RankInputs inputs;
  inputs.rank = environment_.rank;
  inputs.store = store_.get();
  inputs.decoded = dataset_.view().as<const std::byte>();
  inputs.reference = reference_ ? &*reference_ : nullptr;
  inputs.interrupted = [this] { return peers_.is_told_to_end(); };
  inputs.check = [this] { peers_.check(); };
  if (is_first()) {
    before_ = take_machine_snapshot();
    if (!dataset_note_.empty()) say("{}\n", dataset_note_);
    say("{}\n", data_note(job_.dataset, options_));
    const std::string weights_note = checkpoint_note(options_, model_);
    if (!weights_note.empty()) say("{}\n", weights_note);
    if (options_.dry_run) say("{}\n", plan_line(job_, find_devices("cpu").cpu.cores.size()));
    if (!options_.dry_run && !options_.quiet) say("{}\n", job_.title);
  }
  int exit_code = 0;
  const auto body = [&](RankSession& session) {
    startup_s_ = seconds_since(begin_);
    {
      const EndWatch watch(session.peers(), [this] { return peers_.reason_to_end(); });
      session.run();
    }
    store_.wait_for_all(kFinishedKey);
    if (JoinedBoard* const board = peers_.board()) board->mark_complete();
    if (is_first()) {
      if (options_.dry_run) say("{}", rehearsed_words(1));
      if (!options_.dry_run) exit_code = write({});
      peers_.tell_written();
    }
    store_.wait_for_all(kWrittenKey);
  };
  run_session(std::make_unique<RankSession>(job_, inputs, writer_), body, left_behind_);
  return exit_code;
}

int JoinedWorld::fail(const std::exception& error) {
  peers_.is_told_to_end();  // a signal may be why
  report_error(writer_, error);
  const launch::RankError own = *channels_.status(environment_.rank).error;
  say_error("ddpbench: rank {}: {}\n", environment_.rank, error.what());
  if (JoinedBoard* const board = peers_.board()) board->mark_failed(environment_.rank);
  // A dry run makes no report to wait for, so the ranks that find the same error get time to say
  // so.
  if (options_.dry_run && agreed_) peers_.settle(channels_);
  Verdict verdict = judge(error);
  try {
    if (!options_.dry_run && peers_.takes_report()) report_failure(error, verdict);
  } catch (const ConfigError& unwritable) {
    if (is_first()) throw;
    say_error("ddpbench: rank {}: {}\n", environment_.rank, unwritable.what());
  }
  const bool interrupted =
      verdict.result.interrupted || (!verdict.result.failure && own.kind == "interrupted");
  return interrupted ? 130 : failure_exit_code(own);
}

// The report is written at once, because a launcher may kill this process as soon as another has
// ended. It is completed later.
void JoinedWorld::report_failure(const std::exception& error, Verdict& verdict) {
  prepare_report();
  fill_report(verdict.result);
  complete_report(report_, options_);
  file_.save(report_);
  peers_.tell_written();
  if (agreed_) peers_.settle(channels_);
  if (!verdict.certain) verdict = judge(error);
  note_memory_kill(memory_kills_, verdict.result);
  write(verdict.result);
}

Verdict JoinedWorld::judge(const std::exception& error) const {
  const auto* const known = dynamic_cast<const WorldFailure*>(&error);
  const WorldSight world = peers_.look(channels_);
  Verdict verdict = judge_world(world);
  if (agreed_ || known == nullptr) return verdict;
  // Before the ranks share channels, they know only what rank 0 says, or that a process has ended.
  if (std::string_view(known->kind()) == Interrupted("").kind()) {
    return interrupted_verdict(world.interruption.value_or(Interruption{known->rank(), 0}));
  }
  std::optional<launch::RunFailure>& failure = verdict.result.failure;
  const bool is_seen = verdict.certain && failure && failure->rank == known->rank();
  if (!is_seen) {
    verdict = {.result = {}, .certain = true};
    failure.emplace().rank = known->rank();
    failure->error = *channels_.status(environment_.rank).error;
  }
  failure->last.phase = kPhaseCount;  // none
  return verdict;
}

// On rank 0, when all ranks have planned the same. Where another command was faster, all refuse.
void JoinedWorld::reserve_report() {
  if (options_.dry_run) return;
  prepare_report();
  file_.reserve(report_, options_);
  if (JoinedBoard* const board = peers_.board()) {
    board->tell_report_path(file_.absolute_path());
  }
}

// Makes what a report needs beside the run. A rank that takes rank 0's place replaces what that has
// left under the report's name.
void JoinedWorld::prepare_report() {
  if (!report_.argv.empty()) return;
  if (!planned_) {
    try {
      plan(find_devices(options_.device));
    } catch (const Error&) {
      // The report then has no run, only the error.
    }
  }
  if (file_.absolute_path().empty()) {
    Options options = options_;
    const JoinedBoard* const board = peers_.board();
    if (board && !board->report_path().empty()) {
      options.json_path = board->report_path();
      options.force = true;
    }
    file_ = ReportOutput(options);
  }
  report_ = begin_report(options_, arguments_);
  report_.started_at = started_at_;
  if (gpus_of_world_) add_gpus(report_.environment, *gpus_of_world_);
}

void JoinedWorld::fill_report(const launch::SuperviseResult& result) {
  report_.runs.clear();
  trace_ = {};
  if (!planned_) {
    report_.status = result.interrupted ? report::Status::interrupted : report::Status::failed;
    if (result.failure) report_.error = failure_info(*result.failure);
    return;
  }
  report::Run run = collect_run(job_, channels_, result);
  if (!options_.trace_path.empty()) add_run(trace_, job_, channels_);
  if (startup_s_ > 0) run.time.startup_s = report::Figure::of(startup_s_);
  run.time.total_s = report::Figure::of(seconds_since(begin_));
  if (before_) fill_joined_conditions(run, *before_, environment_.world_size);
  const bool diverged = run.status == report::Status::diverged;
  report_.status = diverged ? report::Status::failed : run.status;
  report_.error = run.error;
  report_.runs.push_back(std::move(run));
}

// Returns the exit code of the run itself.
int JoinedWorld::write(const launch::SuperviseResult& result) {
  fill_report(result);
  finish_report(report_, {&trace_, report_.runs.size()}, options_, file_);
  if (report_.status != report::Status::failed || result.failure) return 0;
  say_error("ddpbench: {}\n", report_.error->message);
  const bool diverged = report_.runs.back().status == report::Status::diverged;
  return diverged ? kDivergedExitCode : 1;  // else the areas that the ranks left are broken
}

}  // namespace

int join_world(Options options, const launch::RankEnvironment& environment,
               const std::vector<std::string>& arguments) {
  return JoinedWorld(std::move(options), environment, arguments).run();
}

}  // namespace ddpbench::bench
