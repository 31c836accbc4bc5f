// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/session.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "bench/build_info.h"
#include "bench/data_places.h"
#include "bench/environment_capture.h"
#include "bench/interrupt.h"
#include "bench/rank_main.h"
#include "bench/run_collector.h"
#include "kernels/nn/model_spec.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/error.h"
#include "reports/metrics.h"

namespace ddpbench::bench {
namespace {

constexpr double kUnitRoundoffFp32 = 0x1p-24;

std::string utc_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), format, &utc);
  return text.data();
}

double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The specification as text in memory that a child inherits.
SharedMemory spec_memory(const RunSpec& spec) {
  const std::string text = to_json(spec).dump();
  SharedMemory memory = SharedMemory::create("ddpbench-run", text.size() + 1);
  std::memcpy(memory.view().data, text.data(), text.size());
  return memory;
}

// Room for the step and bucket records of one rank.
launch::ChannelLayout channel_layout(const RunSpec& spec, const nn::ModelSpec& model) {
  launch::ChannelLayout layout;
  layout.ranks = static_cast<int>(plan_strategy(strategy_config(spec)).processes.size());
  const auto steps = static_cast<std::size_t>(spec.options.epochs * spec.steps_per_epoch);
  layout.step_capacity = spec.is_reference() ? 0 : steps;
  // ddp has at most a bucket per parameter tensor, ps a shard per server.
  const std::size_t buckets =
      std::max<std::size_t>(2 * model.layers.size(), static_cast<std::size_t>(spec.cell.servers));
  layout.bucket_capacity = spec.options.observe ? layout.step_capacity * buckets : 0;
  return layout;
}

std::string cell_title(const RunCell& cell, int repetitions) {
  std::string title = cell.strategy == "reference"
                          ? fmt::format("reference of {} slices", cell.world_size)
                          : fmt::format("{} on {} device{}", cell.strategy, cell.world_size,
                                        cell.world_size == 1 ? "" : "s");
  if (cell.servers > 0) {
    title += fmt::format(" and {} server{}", cell.servers, cell.servers == 1 ? "" : "s");
  }
  if (repetitions > 1) title += fmt::format(", repetition {}", cell.repetition + 1);
  return title;
}

report::ErrorInfo to_error_info(const launch::RunFailure& failure, const std::string& where) {
  report::ErrorInfo error;
  error.kind = failure.error.kind;
  error.message = where + failure.error.message;
  if (failure.signal != 0) error.signal = failure.signal;
  return error;
}

int terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    return size.ws_col;
  }
  return 0;
}

}  // namespace

Session::Session(Options options, std::vector<std::string> arguments)
    : options_(std::move(options)),
      topology_(read_cpu_topology()),
      progress_(Progress::style_for_stdout(options_.quiet)) {
  const DeviceChoice choice = choose_device(options_);
  if (!choice.note.empty() && !options_.quiet) fmt::print("{}\n", choice.note);
  if (options_.all_gpus) options_.gpus = {static_cast<int>(topology_.cores.size())};
  if (options_.json_path.empty()) {
    options_.json_path = "ddpbench-" + utc_now("%Y%m%dT%H%M%SZ") + ".json";
  }
  if (!options_.dry_run) report::check_report_path(options_.json_path, options_.force);
  model_path_ = find_model(options_.model);
  model_ = nn::load_model_file(model_path_);
  report_.argv = std::move(arguments);
  report_.started_at = utc_now("%Y-%m-%dT%H:%M:%SZ");
  report_.generator = generator();

  const auto source =
      data::open_dataset({.name = options_.dataset,
                          .directories = data_directories(options_.data_dir),
                          .synthesize_when_missing = options_.on_missing == "synthesize",
                          .seed = options_.seed});
  dataset_info_ = source->info();
  check_dataset_fits(model_, dataset_info_, model_path_);
  for (const RunCell& cell : plan_cells(options_)) {  // every cell, before the first is started
    make_run_spec(options_, cell, dataset_info_, model_path_, topology_);
  }
  if (options_.dry_run) return;
  if (dataset_info_.source == "synthetic" && !options_.quiet) {
    fmt::print("data: {} is not here; drawing synthetic digits (seed {})\n", options_.dataset,
               options_.seed);
  }
  dataset_ = SharedMemory::create("ddpbench-dataset", dataset_info_.decoded_bytes());
  source->decode(dataset_.view().as<std::byte>());
}

int Session::run() {
  if (options_.dry_run) {
    print_plan();
    return 0;
  }
  catch_interrupts();
  report_.config_json = to_json(options_).dump();
  for (const RunCell& cell : plan_cells(options_)) {
    if (interrupted_) break;
    report_.runs.push_back(run_cell(cell));
    const report::Run& run = report_.runs.back();
    if (run.status == report::Status::failed && !report_.error) report_.error = run.error;
    if (run.status == report::Status::interrupted) interrupted_ = true;
  }
  report::fill_scaling(report_);
  write();
  return exit_code();
}

report::Run Session::run_cell(const RunCell& cell) {
  RunSpec spec = make_run_spec(options_, cell, dataset_info_, model_path_, topology_);
  spec.verification_tolerance = report::verification_tolerance(
      kUnitRoundoffFp32, longest_gradient_sum(model_, spec.global_batch()), options_.verify_steps);
  const double begin = monotonic_s();
  std::optional<launch::RunFailure> failure;
  spec.dataset_fd = dataset_.fd();
  spec.reference_fd = reference_for(spec, failure);
  if (failure || interrupt_requested()) {
    report::Run run = planned_run(spec);
    run.status = failure ? report::Status::failed : report::Status::interrupted;
    if (failure) {
      run.error = to_error_info(*failure, "the reference to verify against failed: ");
      exit_codes_.push_back(failure->error.exit_code);
    }
    return run;
  }
  launch::RankChannels channels = launch::RankChannels::create(channel_layout(spec, model_));
  const launch::SuperviseResult result =
      start(spec, channels, cell_title(cell, options_.repetitions));
  report::Run run = collect_run(spec, channels, result);
  run.time.total_s = monotonic_s() - begin;
  if (result.failure) {
    exit_codes_.push_back(result.failure->error.exit_code);
    fmt::print(stderr, "ddpbench: {}: {}\n", cell_title(cell, options_.repetitions),
               result.failure->error.message);
  }
  return run;
}

int Session::reference_for(const RunSpec& spec, std::optional<launch::RunFailure>& failure) {
  if (options_.verify_steps == 0 || spec.cell.strategy == "single") return -1;
  const auto known = references_.find(spec.cell.world_size);
  if (known != references_.end()) return known->second.fd();
  auto weights = ReferenceWeights::create(model_.parameter_count());
  RunSpec reference = reference_spec(spec);
  reference.reference_fd = weights.fd();
  launch::RankChannels channels = launch::RankChannels::create(channel_layout(reference, model_));
  const auto result = start(reference, channels, cell_title(reference.cell, 1));
  if (result.failure) failure = result.failure;
  if (result.interrupted || result.failure) return -1;
  const int fd = weights.fd();
  references_.emplace(spec.cell.world_size, std::move(weights));
  return fd;
}

launch::SuperviseResult Session::start(const RunSpec& given, launch::RankChannels& channels,
                                       const std::string& title) {
  RunSpec spec = given;
  spec.channel_fd = channels.fd();
  const SharedMemory text = spec_memory(spec);
  launch::LaunchSpec launch;
  launch.ranks = channels.layout().ranks;
  launch.threads_per_device = spec.options.threads_per_device;
  launch.environment[kRunFdVariable] = std::to_string(text.fd());
  launch.inherited_fds = {text.fd(), spec.channel_fd, spec.dataset_fd};
  if (spec.reference_fd >= 0) launch.inherited_fds.push_back(spec.reference_fd);
  launch::SuperviseOptions supervise;
  supervise.timeout_s = spec.options.timeout_s;
  supervise.interrupted = interrupt_requested;
  supervise.progress = [this](const launch::RankChannels& all) { progress_.update(all); };
  progress_.begin(spec, title);
  auto result = launch::run_ranks(launch, channels, supervise);
  progress_.end();
  return result;
}

void Session::print_plan() const {
  fmt::print("model: {} ({} parameters), data: {} ({})\n", model_.name, model_.parameter_count(),
             dataset_info_.name, dataset_info_.source);
  for (const RunCell& cell : plan_cells(options_)) {
    const RunSpec spec = make_run_spec(options_, cell, dataset_info_, model_path_, topology_);
    fmt::print("{}: batch {} per device, {} global, {} epochs of {} steps{}\n",
               cell_title(cell, options_.repetitions), spec.per_device_batch, spec.global_batch(),
               options_.epochs, spec.steps_per_epoch,
               spec.oversubscribed ? ", oversubscribed" : "");
  }
  fmt::print("configuration: {}\n", to_json(options_).dump(2));
}

void Session::write() {
  report_.environment = capture_environment(process_variables(), ops::library_versions());
  report_.finished_at = utc_now("%Y-%m-%dT%H:%M:%SZ");
  report_.status = interrupted_          ? report::Status::interrupted
                   : exit_codes_.empty() ? report::Status::ok
                                         : report::Status::failed;
  report::write_report(report_, options_.json_path, options_.force);
  if (!options_.quiet) fmt::print("\n{}", report::render_table(report_, terminal_width()));
  fmt::print("report: {}\n", options_.json_path);
}

int Session::exit_code() const {
  if (interrupted_) return 130;
  return exit_codes_.empty() ? 0 : exit_codes_.front();
}

}  // namespace ddpbench::bench
