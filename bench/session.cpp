// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/session.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "bench/data_places.h"
#include "bench/interrupt.h"
#include "bench/launch_run.h"
#include "bench/report_output.h"
#include "bench/run_collector.h"
#include "bench/run_trace.h"
#include "kernels/nn/model_spec.h"
#include "kernels/runtime/error.h"

namespace ddpbench::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

report::ErrorInfo reference_error(const launch::RunFailure& failure) {
  report::ErrorInfo error;
  error.kind = failure.error.kind;
  error.message = "the reference to verify against failed: " + failure.error.message;
  if (failure.signal != 0) error.signal = failure.signal;
  return error;
}

}  // namespace

Session::Session(Options options, std::vector<std::string> arguments)
    : options_(std::move(options)),
      topology_(read_cpu_topology()),
      progress_(Progress::style_for_stdout(options_.quiet)) {
  const DeviceChoice choice = choose_device(options_);
  if (options_.all_gpus) {
    options_.gpus = {static_cast<int>(topology_.cores.size())};
    check_options(options_);  // what depends on the number of devices is known only now
  }
  options_.device = choice.device;
  if (options_.backend == "auto") options_.backend = "ring";
  if (!options_.dry_run) report_path_ = choose_report_path(options_);
  report_ = begin_report(options_, std::move(arguments));
  model_path_ = find_model(options_.model);
  model_ = nn::load_model_file(model_path_);
  const auto source = open_data(options_);
  dataset_info_ = source->info();
  check_dataset_fits(model_, dataset_info_, model_path_);
  for (const RunCell& cell : plan_cells(options_)) {  // every cell, before the first is started
    make_run_spec(options_, cell, dataset_info_, model_path_, topology_);
  }
  if (!choice.note.empty()) fmt::print("{}\n", choice.note);
  fmt::print("{}\n", data_note(dataset_info_, options_));
  if (options_.dry_run) return;
  dataset_ = SharedMemory::create("ddpbench-dataset", dataset_info_.decoded_bytes());
  source->decode(dataset_.view().as<std::byte>());
}

int Session::run() {
  if (options_.dry_run) {
    print_plan();
    return 0;
  }
  catch_interrupts();
  for (const RunCell& cell : plan_cells(options_)) {
    report_.runs.push_back(run_cell(cell));
    const report::Run& run = report_.runs.back();
    if (run.status == report::Status::failed && !report_.error) report_.error = run.error;
    if (run.status == report::Status::interrupted) {
      interrupted_ = true;
      break;
    }
  }
  report_.status = interrupted_          ? report::Status::interrupted
                   : exit_codes_.empty() ? report::Status::ok
                                         : report::Status::failed;
  finish_report(report_, trace_, options_, report_path_);
  return exit_code();
}

// A run that cannot even be started is a failed run among the others.
report::Run Session::run_cell(const RunCell& cell) {
  RunSpec spec = make_run_spec(options_, cell, dataset_info_, model_path_, topology_);
  try {
    return run_spec(spec);
  } catch (const Error& error) {
    report::Run run = planned_run(spec);
    run.status = report::Status::failed;
    run.error.emplace();
    run.error->kind = error.kind();
    run.error->message = error.what();
    exit_codes_.push_back(error.exit_code());
    fmt::print(stderr, "ddpbench: {}: {}\n", run_title(cell, options_.repetitions), error.what());
    return run;
  }
}

report::Run Session::run_spec(RunSpec& spec) {
  const auto begin = std::chrono::steady_clock::now();
  spec.verification_tolerance = tolerance_for(spec, model_);
  spec.dataset_fd = dataset_.fd();
  std::optional<launch::RunFailure> failure;
  spec.reference_fd = reference_for(spec, failure);
  if (failure || interrupt_requested()) {
    report::Run run = planned_run(spec);
    run.status = failure ? report::Status::failed : report::Status::interrupted;
    run.time.total_s = report::Figure::of(seconds_since(begin));
    if (failure) {
      run.error = reference_error(*failure);
      exit_codes_.push_back(failure_exit_code(failure->error));
      fmt::print(stderr, "ddpbench: {}\n", run.error->message);
    }
    return run;
  }
  launch::RankChannels channels = launch::RankChannels::create(channel_layout(spec, model_));
  const launch::SuperviseResult result = launch_run(spec, channels, progress_);
  report::Run run = collect_run(spec, channels, result);
  if (!options_.trace_path.empty()) add_run(trace_, spec, channels);
  run.time.total_s = report::Figure::of(seconds_since(begin));
  if (result.failure) {
    exit_codes_.push_back(failure_exit_code(result.failure->error));
    fmt::print(stderr, "ddpbench: {}: {}\n", run_title(spec.cell, options_.repetitions),
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
  const auto result = launch_run(reference, channels, progress_);
  if (result.failure) failure = result.failure;
  if (result.interrupted || result.failure) return -1;
  const int fd = weights.fd();
  references_.emplace(spec.cell.world_size, std::move(weights));
  return fd;
}

void Session::print_plan() const {
  fmt::print("model: {} ({} parameters), {}\n", model_.name, model_.parameter_count(), model_path_);
  for (const RunCell& cell : plan_cells(options_)) {
    const RunSpec spec = make_run_spec(options_, cell, dataset_info_, model_path_, topology_);
    fmt::print("{}: batch {} per device, {} global, {} epochs of {} steps{}\n",
               run_title(cell, options_.repetitions), spec.per_device_batch, spec.global_batch(),
               options_.epochs, spec.steps_per_epoch,
               spec.oversubscribed ? ", oversubscribed" : "");
  }
  fmt::print("configuration: {}\n", to_json(options_).dump(2));
}

int Session::exit_code() const {
  if (interrupted_) return 130;
  return exit_codes_.empty() ? 0 : exit_codes_.front();
}

}  // namespace ddpbench::bench
