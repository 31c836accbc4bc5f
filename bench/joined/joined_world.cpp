// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/environment_capture.h"
#include "bench/host/interrupt.h"
#include "bench/host/machine_snapshot.h"
#include "bench/host/terminal.h"
#include "bench/joined/joined_gpus.h"
#include "bench/joined/joined_store.h"
#include "bench/plan/data_places.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_main.h"
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
constexpr const char* kDatasetKey = "joined/dataset";
constexpr const char* kReferenceKey = "joined/reference";
constexpr const char* kDoneKey = "joined/done";
constexpr const char* kGpusKey = "joined/gpus_known";

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

[[noreturn]] void throw_reference_failure(const launch::RankError& error) {
  const std::string message = "the reference to verify against failed: " + error.message;
  const int code = failure_exit_code(error);
  if (code == ConfigError("").exit_code()) throw ConfigError(message);
  if (code == UnavailableError("").exit_code()) throw UnavailableError(message);
  throw InternalError(message);
}

// While this object lives, an interrupt ends this rank's waits in `world`, which may be null.
class InterruptWatch {
 public:
  explicit InterruptWatch(comm::Communicator* world) {
    if (world != nullptr) thread_ = std::thread([this, world] { watch(*world); });
  }
  ~InterruptWatch() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  void watch(comm::Communicator& world) {
    constexpr auto kLook = std::chrono::milliseconds(50);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLook, [this] { return ending_; })) {
      if (!interrupt_requested()) continue;
      world.abort("interrupted");
      return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

class JoinedWorld {
 public:
  JoinedWorld(Options options, const launch::RankEnvironment& environment,
              const std::vector<std::string>& arguments);
  int run();

 private:
  bool is_first() const { return environment_.rank == 0; }
  HostDevices find_world_devices();
  void place_on_own_gpus();
  void take_own_gpu();
  void share_dataset(data::DatasetSource& source);
  void share_reference();
  void place(const CpuTopology& topology);
  int train();
  void collect(RankSession& session);
  int fail(const std::exception& error);
  int write(const launch::SuperviseResult& result);

  Options options_;
  launch::RankEnvironment environment_;
  Progress progress_;
  ReportOutput file_;
  report::Report report_;
  report::Trace trace_;
  std::optional<report::MachineSnapshot> before_;  // on rank 0, taken when training begins
  TrainingJob job_;
  nn::ModelSpec model_;
  JoinedStore store_;
  std::optional<JoinedGpus> own_gpus_;  // set where several processes have GPUs
  SharedMemory dataset_;
  std::optional<ReferenceWeights> reference_;
  launch::RankChannels channels_;  // of all ranks; only this rank's area is filled before collect()
  launch::RankWriter writer_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool left_behind_ = false;  // a session whose device hangs was left behind
  double startup_s_ = 0;      // from the construction of this object to the first step
};

JoinedWorld::JoinedWorld(Options options, const launch::RankEnvironment& environment,
                         const std::vector<std::string>& arguments)
    : options_(std::move(options)),
      environment_(environment),
      progress_(Progress::style_for_stdout(options_.quiet || !is_first())),
      store_(environment, wait_limit_s(options_.timeout_s)),
      channels_(launch::RankChannels::create({.ranks = 1, .result_capacity = 64})) {
  refuse_lists(options_);
  const HostDevices host = find_world_devices();
  const DeviceChoice choice = choose_device(options_, host);
  options_.device = choice.device;
  options_.server_device = choice.server_device;
  options_.precision = choice.precision;
  const RunCell cell =
      joined_cell(options_, environment_.world_size, device_count(host, choice.device));
  if (options_.device == "cpu") options_.backend = choose_backend(options_.backend, "cpu", false);
  const bool reports = is_first() && !options_.dry_run;
  if (reports) file_ = ReportOutput(options_);
  const std::string model_path = find_model(options_.model);
  model_ = nn::load_model_file(model_path);
  const auto source = open_data(options_);
  check_dataset_fits(model_, source->info(), model_path);
  job_ = make_training_job(options_, cell, source->info(), network_of(model_, model_path), host);
  place_on_own_gpus();
  if (options_.backend == "auto" || options_.backend == kBackendAlias) {
    options_.backend = common_backend({job_});
  }
  if (reports) {
    report_ = begin_report(options_, arguments);
    if (options_.device == "cuda") add_gpus(report_.environment, host);
  }
  job_.verification_tolerance = tolerance_for(job_, model_);
  place(host.cpu);
  take_own_gpu();
  const auto layout = channel_layout(job_, model_);
  channels_ = launch::RankChannels::create(layout);
  writer_ = channels_.writer(environment_.rank);
  if (options_.dry_run) return;
  store_.connect();
  share_dataset(*source);
}

// Returns what all ranks together have. All must know whether they are on GPUs, so ranks that see
// none tell it, too. Servers on CPU devices need no GPU.
HostDevices JoinedWorld::find_world_devices() {
  HostDevices host = find_devices(options_.device);
  const int workers = environment_.world_size - cpu_servers(options_);
  if (options_.device == "cpu" || environment_.world_size == 1 || workers < 1) return host;
  store_.connect();
  JoinedGpus gpus = assign_gpus(exchange_gpus(*store_.get(), environment_.rank, workers,
                                              {environment_.local_rank, host.cuda},
                                              wait_limit_s(options_.timeout_s)));
  store_.wait_for_all(kGpusKey);  // rank 0 may be about to refuse
  host.cuda = gpus.world;
  if (!host.cuda.devices.empty()) own_gpus_ = std::move(gpus);
  return host;
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

void JoinedWorld::share_dataset(data::DatasetSource& source) {
  if (is_first()) {
    dataset_ = SharedMemory::create("ddpbench-dataset", source.info().decoded_bytes(), true);
    source.decode(dataset_.view().as<std::byte>());
    dataset_.seal();
    store_.share(kDatasetKey, dataset_.handle());
  } else {
    dataset_ = SharedMemory::open(store_.await(kDatasetKey));
  }
}

// Rank 0 runs the reference in a process of its own; the others wait for it.
void JoinedWorld::share_reference() {
  if (!needs_reference(job_)) return;
  job_.reference_fd = 0;  // a reference exists; each rank maps it in its own way
  if (!is_first()) {
    reference_ = ReferenceWeights::open(store_.await(kReferenceKey));
    return;
  }
  reference_ = ReferenceWeights::create(model_.parameter_count());
  TrainingJob reference = reference_job(job_);
  reference.dataset_fd = dataset_.fd();
  reference.reference_fd = reference_->fd();
  auto channels = launch::RankChannels::create(channel_layout(reference, model_));
  const auto result = launch_run(reference, channels, progress_);
  if (result.interrupted) throw Interrupted("interrupted");
  if (result.failure) throw_reference_failure(result.failure->error);
  store_.share(kReferenceKey, reference_->handle());
}

int JoinedWorld::run() {
  if (options_.dry_run) {
    if (is_first()) {
      say("{}: batch {} per device, {} global, {} epochs of {} steps\n", job_.title,
          job_.per_device_batch, job_.global_batch(), options_.epochs, job_.steps_per_epoch);
    }
    return 0;
  }
  // Rank 0 has a report to write. On other ranks a signal simply ends the process.
  if (is_first()) catch_interrupts();
  try {
    share_reference();
    return train();
  } catch (const std::exception& error) {
    const int exit_code = fail(error);
    if (left_behind_ || leaves_thread_behind(error)) end_process(exit_code);
    return exit_code;
  }
}

int JoinedWorld::train() {
  RankInputs inputs;
  inputs.rank = environment_.rank;
  inputs.store = store_.get();
  inputs.decoded = dataset_.view().as<const std::byte>();
  inputs.reference = reference_ ? &*reference_ : nullptr;
  inputs.interrupted = interrupt_requested;
  if (is_first()) {
    before_ = take_machine_snapshot();
    say("{}\n", data_note(job_.dataset, options_));
    if (!options_.quiet) say("{}\n", job_.title);
  }
  int exit_code = 0;
  const auto body = [&](RankSession& session) {
    startup_s_ = seconds_since(begin_);
    {
      const InterruptWatch watch(session.world());
      session.run();
    }
    collect(session);
    if (is_first()) exit_code = write({});
    store_.wait_for_all(kDoneKey);
  };
  run_session(std::make_unique<RankSession>(job_, inputs, writer_), body, left_behind_);
  return exit_code;
}

// Sends each rank's area to rank 0: through the communicator where it moves host memory, else
// through the store.
void JoinedWorld::collect(RankSession& session) {
  if (session.world() == nullptr) return;
  const auto own = channels_.area(environment_.rank);
  if (!job_.gpus.empty()) {
    store_.collect(channels_);
    return;
  }
  comm::Elements all;
  if (is_first()) {
    all = {own.data(), own.size() * static_cast<std::size_t>(environment_.world_size),
           DataType::uint8};
  }
  session.world()
      ->gather({own.data(), own.size(), DataType::uint8}, all, 0, {.start = comm::Start::deferred})
      .synchronize();
}

int JoinedWorld::fail(const std::exception& error) {
  report_error(writer_, error);
  const launch::RankError own = *channels_.status(environment_.rank).error;
  launch::SuperviseResult result;
  result.interrupted = own.kind == "interrupted" || interrupt_requested();
  say_error("ddpbench: rank {}: {}\n", environment_.rank, error.what());
  store_.tell_failure(own, channels_);
  if (is_first()) {
    if (!result.interrupted) {
      result.failure = store_.first_failure(
          {.rank = environment_.rank, .error = own, .last = channels_.status(environment_.rank)});
    }
    store_.take_what_is_left(channels_);
    write(result);
  }
  return result.interrupted ? 130 : failure_exit_code(own);
}

// Returns the exit code of the run itself.
int JoinedWorld::write(const launch::SuperviseResult& result) {
  report::Run run = collect_run(job_, channels_, result);
  if (!options_.trace_path.empty()) add_run(trace_, job_, channels_);
  if (startup_s_ > 0) run.time.startup_s = report::Figure::of(startup_s_);
  run.time.total_s = report::Figure::of(seconds_since(begin_));
  if (before_) fill_joined_conditions(run, *before_, environment_.world_size);
  report_.status = run.status;
  report_.error = run.error;
  report_.runs.push_back(std::move(run));
  finish_report(report_, {&trace_, report_.runs.size()}, options_, file_);
  if (report_.status != report::Status::failed || result.failure) return 0;
  say_error("ddpbench: {}\n", report_.error->message);
  return 1;  // the areas that the ranks left are broken
}

}  // namespace

int join_world(Options options, const launch::RankEnvironment& environment,
               const std::vector<std::string>& arguments) {
  return JoinedWorld(std::move(options), environment, arguments).run();
}

}  // namespace ddpbench::bench
