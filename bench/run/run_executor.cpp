// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_executor.h"

#include <fmt/format.h>

#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/interrupt.h"
#include "bench/host/machine_snapshot.h"
#include "bench/plan/data_places.h"
#include "bench/run/launch_run.h"
#include "bench/run/report_output.h"
#include "bench/run/run_collector.h"
#include "bench/run/run_trace.h"
#include "kernels/nn/model/model_reader.h"

namespace ddpbench::bench {
namespace {

report::ErrorInfo reference_error(const launch::RunFailure& failure) {
  report::ErrorInfo error;
  error.kind = failure.error.kind;
  error.message = "the reference to verify against failed: " + failure.error.message;
  if (failure.signal != 0) error.signal = failure.signal;
  return error;
}

}  // namespace

RunExecutor::RunExecutor(const Options& options, const HostDevices& host)
    : options_(options),
      host_(host),
      model_path_(find_model(options.model)),
      model_(nn::load_model_file(model_path_)),
      source_(open_data(options)),
      dataset_info_(source_->info()),
      progress_(Progress::style_for_stdout(options.quiet)) {
  check_dataset_fits(model_, dataset_info_, model_path_);
}

RunSpec RunExecutor::plan(const RunCell& cell) const {
  return make_run_spec(options_, cell, dataset_info_, model_path_, host_, kGpuAdvice);
}

void RunExecutor::decode() {
  dataset_ = SharedMemory::create("ddpbench-dataset", dataset_info_.decoded_bytes());
  source_->decode(dataset_.view().as<std::byte>());
}

// A run that cannot even be started is a failed run among the others.
report::Run RunExecutor::run(const RunCell& cell) {
  RunSpec spec = plan(cell);
  const std::string started_at = utc_timestamp();
  report::Run run;
  try {
    run = run_spec(spec);
  } catch (const Error& error) {
    run = planned_run(spec);
    run.status = report::Status::failed;
    run.error.emplace();
    run.error->kind = error.kind();
    run.error->message = error.what();
    exit_codes_.push_back(error.exit_code());
    fmt::print(stderr, "ddpbench: {}: {}\n", spec.title, error.what());
  }
  run.started_at = started_at;
  return run;
}

report::Run RunExecutor::run_spec(RunSpec& spec) {
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
  const report::MachineSnapshot before = take_machine_snapshot();
  const launch::SuperviseResult result = launch_run(spec, channels, progress_);
  const report::MachineSnapshot after = take_machine_snapshot();
  report::Run run = collect_run(spec, channels, result);
  if (!options_.trace_path.empty()) {
    add_run(trace_, spec, channels);
    ++traced_runs_;
  }
  report::fill_conditions(run, before, after);
  run.time.total_s = report::Figure::of(seconds_since(begin));
  if (result.failure) {
    exit_codes_.push_back(failure_exit_code(result.failure->error));
    fmt::print(stderr, "ddpbench: {}: {}\n", spec.title, result.failure->error.message);
  } else if (run.status == report::Status::failed) {
    exit_codes_.push_back(1);  // what the ranks left is not what it should be
    fmt::print(stderr, "ddpbench: {}: {}\n", spec.title, run.error->message);
  }
  return run;
}

int RunExecutor::reference_for(const RunSpec& spec, std::optional<launch::RunFailure>& failure) {
  if (options_.verify_steps == 0 || spec.cell.strategy == "single") return -1;
  const ReferenceKey key = reference_key(spec);
  const auto known = references_.find(key);
  if (known != references_.end()) return known->second.fd();
  auto weights = ReferenceWeights::create(model_.parameter_count());
  RunSpec reference = reference_spec(spec);
  reference.reference_fd = weights.fd();
  launch::RankChannels channels = launch::RankChannels::create(channel_layout(reference, model_));
  const auto result = launch_run(reference, channels, progress_);
  if (result.failure) failure = result.failure;
  if (result.interrupted || result.failure) return -1;
  const int fd = weights.fd();
  references_.emplace(key, std::move(weights));
  return fd;
}

}  // namespace ddpbench::bench
