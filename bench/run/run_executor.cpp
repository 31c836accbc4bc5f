// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <ranges>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/plan/data_places.h"
#include "bench/plan/training_checkpoint.h"
#include "bench/run/run_records.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/cpu/simd.h"
#include "kernels/runtime/cpu_topology.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

using report::Figure;

// In the first windows a processor may still raise its clock, or lower it for wide vectors.
constexpr std::size_t kPeakWindows = 6, kFirstCounted = 2;
constexpr double kPeakWindow_s = 2e-3;
constexpr std::int64_t kRoundsPerLook = 1000;  // some microseconds between two looks at the clock

using Rates = std::array<double, kPeakWindows>;  // operations a second

// The same work over and over: it returns a sum of numbers that are positive.
struct Work {
  std::function<float()> run;
  double flops = 0;
};

Work work_of(const std::string& precision) {
  if (precision == "bf16") {
    return {[] { return ops::cpu::run_bf16_multiply_adds(kRoundsPerLook); },
            static_cast<double>(kRoundsPerLook * ops::cpu::bf16_multiply_add_flops())};
  }
  const ops::cpu::SimdLevel level = ops::cpu::simd_level();
  return {[level] { return ops::cpu::run_multiply_adds(level, kRoundsPerLook, 0.5F, 1); },
          static_cast<double>(kRoundsPerLook * ops::cpu::multiply_add_flops(level))};
}

Rates measure_here(const Work& work) {
  Rates rates{};
  for (double& rate : rates) {
    const double begin_s = steady_s();
    double end_s = begin_s, done = 0;
    while (end_s - begin_s < kPeakWindow_s) {
      // Looking at the sum keeps a compiler from dropping the work.
      if (work.run() > 0) done += work.flops;
      end_s = steady_s();
    }
    rate = done / (end_s - begin_s);
  }
  return rates;
}

// Of all cores together, which begin within less than the windows that do not count; the best
// window counts, because it is to be a bound.
Figure measure(const std::vector<int>& cores, const Work& work) {
  std::vector<std::future<std::optional<Rates>>> of_cores;
  try {
    for (const int core : cores) {
      of_cores.push_back(std::async(std::launch::async, [core, &work] {
        return pin_calling_thread({&core, 1}) == 0 ? std::optional(measure_here(work))
                                                   : std::nullopt;
      }));
    }
  } catch (const std::system_error& error) {
    return Figure::missing(fmt::format("threads could not be started: {}", error.what()));
  }
  Rates sums{};
  for (auto& measured : of_cores) {
    const std::optional<Rates> rates = measured.get();
    if (!rates) return Figure::missing("a thread could not be bound to a device's core");
    std::ranges::transform(sums, *rates, sums.begin(), std::plus());
  }
  return Figure::of(*std::ranges::max_element(sums | std::views::drop(kFirstCounted)));
}

}  // namespace

Figure PeakRates::of(const TrainingJob& job) {
  if (job.options.device != "cpu") return Figure::missing("the peak of GPUs is not measured");
  const std::string& precision = job.options.precision;
  if (precision == "bf16" && ops::cpu_bf16_uses_amx()) {
    return Figure::missing("the peak of AMX, which computes in bf16 here, is not measured");
  }
  std::vector<int> cores;
  for (int i = 0; i < job.cell.world_size; ++i) {
    const std::vector<int>& own = job.cores.at(static_cast<std::size_t>(i));
    cores.insert(cores.end(), own.begin(), own.end());
  }
  std::ranges::sort(cores);
  if (cores.empty()) return Figure::missing("the devices are bound to no cores");
  if (std::ranges::adjacent_find(cores) != cores.end()) {
    return Figure::missing("the devices share cores");
  }
  const auto [known, added] = known_.try_emplace({cores, precision});
  if (added) known->second = measure(cores, work_of(precision));
  if (!known->second.value) return known->second;
  return Figure::of(*known->second.value / job.cell.world_size);
}

RunExecutor::RunExecutor(const Options& options, const HostDevices& host, RunHosts* hosts)
    : options_(options),
      host_(host),
      hosts_(hosts),
      model_(nn::load_model_file(find_model(options.model), options.crop)),
      network_(network_of(model_, find_model(options.model))),
      source_(open_data(options, model_)),
      dataset_info_(hosts_ != nullptr ? hosts_->share_inputs(options)
                                      : describe_data(*source_, options)),
      progress_(Progress::style_for_stdout(options.quiet)) {
  check_dataset_fits(model_, dataset_info_, network_.path);
  check_data_options(options, dataset_info_);
}

TrainingJob RunExecutor::plan(const RunCell& cell) const {
  Options options = entry_options(options_, cell);
  if (hosts_ != nullptr) {
    const bool alone = strategy_traits(cell.strategy).one_process;
    options.backend = hosts_->backend(options.backend, backend_device(options, cell.servers),
                                      alone ? 1 : cell.world_size, alone ? 0 : cell.servers,
                                      alone ? cell.world_size : 1);
  }
  TrainingJob job = make_training_job(options, cell, dataset_info_, network_, host_);
  job.title = run_title(cell, options_);
  if (hosts_ != nullptr && job.gpus.empty())
    job.oversubscribed = hosts_->oversubscribes(host_job(job));
  job.resumed = resumed_position(job, model_);
  return job;
}

void RunExecutor::decode() {
  if (hosts_ != nullptr) return;
  FileDescriptor images = source_->open_decoded([&](auto done, auto of, const std::string& path) {
    if (interrupt_requested()) throw Interrupted();
    progress_.show_decoding(done, of, path);
  });
  progress_.end();
  dataset_ = images ? SharedMemory::adopt(images.release()) : decode_samples(*source_);
}

// A run that cannot even be started is a failed run among the others.
report::Run RunExecutor::run(const RunCell& cell) {
  TrainingJob job = plan(cell);
  const std::string started_at = utc_timestamp();
  const double begin_s = steady_s();
  report::Run run;
  try {
    run = run_job(job);
  } catch (const Interrupted&) {
    run = planned_run(job);
    run.status = report::Status::interrupted;
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    run = planned_run(job);
    run.status = report::Status::failed;
    run.error = report::ErrorInfo{.kind = failure.kind, .message = failure.message};
    note_failure(job.title, failure.exit_code, failure.message);
  }
  run.started_at = started_at;
  run.time.total_s = Figure::of(steady_s() - begin_s);
  return run;
}

void RunExecutor::note_failure(const std::string& title, int exit_code,
                               const std::string& message) {
  exit_codes_.push_back(exit_code);
  say_error("ddpbench: {}: {}\n", title, message);
}

void RunExecutor::note_failure(const std::string& title, const launch::RunFailure& failure) {
  note_failure(title, failure_exit_code(failure.error), failure.error.message);
}

// Ranks do not train when their job's options have dry_run (RankSession).
std::optional<double> RunExecutor::rehearse(const RunCell& cell) {
  constexpr int kCycles = 2;  // the first finds memory, and kernels, that the second has
  TrainingJob job = plan(cell);
  job.dataset_fd = dataset_.fd();
  job.options.injections.clear();  // no step is to fail
  const double begin_s = steady_s();
  double expected = 0;
  try {
    const auto [known, is_timed] =
        rehearsed_step_s_.try_emplace({cell.entry, job.per_device_batch * cell.accumulation_steps});
    if (is_timed) job.rehearsed_steps = kCycles * cycle_steps(job);
    std::vector<TrainingJob> jobs = {job};
    if (needs_reference(job) && rehearsed_references_.insert(reference_key(job)).second) {
      jobs.insert(jobs.begin(), reference_job(job));
    }
    if (hosts_ != nullptr) hosts_->prepare(host_job(job));
    for (const TrainingJob& one : jobs) {
      if (hosts_ != nullptr) hosts_->prepare(host_job(one));
      launch::RankChannels channels = channels_for(one);
      const launch::SuperviseResult result = launch_run(one, channels, progress_, hosts_);
      if (result.failure) note_failure(one.title, *result.failure);
      if (result.interrupted) return std::nullopt;
      if (one.is_reference() || !is_timed) continue;
      known->second =
          decoded_rank_result(channels.result(0)).warmup_s.value_or(0) / turns(job, host_);
    }
    expected = steady_s() - begin_s - job.rehearsed_steps * known->second;
    expected += expected_s(job, known->second * turns(job, host_));
    if (jobs.size() > 1) expected += job.options.verify_steps * job.cell.world_size * known->second;
  } catch (const Interrupted&) {
    return std::nullopt;
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    note_failure(job.title, failure.exit_code, failure.message);
  }
  return expected;
}

report::Run RunExecutor::run_job(TrainingJob& job) {
  job.verification_tolerance = tolerance_for(job, model_);
  job.dataset_fd = dataset_.fd();
  HostReference on_hosts;
  if (hosts_ != nullptr) hosts_->prepare(host_job(job));
  std::optional<launch::RunFailure> failure = find_reference(job, on_hosts);
  if (failure || interrupt_requested()) {
    report::Run run = planned_run(job);
    run.status = failure ? report::Status::failed : report::Status::interrupted;
    if (failure) {
      failure->error.message = "the reference to verify against failed: " + failure->error.message;
      run.error = failure_info(*failure);
      note_failure(job.title, *failure);
    }
    return run;
  }
  const report::Figure peak = hosts_ != nullptr
                                  ? Figure::missing("the peak of other hosts is not measured")
                                  : peaks_.of(job);
  launch::RankChannels channels = channels_for(job);
  const std::vector<report::MachineSnapshot> before = snapshots();
  launch::SuperviseResult result = launch_run(job, channels, progress_, hosts_, on_hosts);
  const std::vector<report::MachineSnapshot> after = snapshots();
  report::Run run = collect_run(job, channels, result);
  run.peak_flops_per_s_per_device = peak;
  if (!options_.trace_path.empty()) {
    add_run(trace_, job, channels);
    ++traced_runs_;
  }
  report::fill_conditions(run, before, after);
  if (result.failure) {
    note_failure(job.title, *result.failure);
  } else if (run.status == report::Status::diverged) {
    note_failure(job.title, kDivergedExitCode, run.error->message);
  }
  return run;
}

// Hosts keep the one that they computed last.
std::optional<launch::RunFailure> RunExecutor::find_reference(TrainingJob& job,
                                                              HostReference& on_hosts) {
  if (!needs_reference(job)) return std::nullopt;
  const std::string key = reference_key(job);
  const auto extent = ReferenceWeights::extent_of(job, model_);
  TrainingJob reference = reference_job(job);
  std::optional<ReferenceWeights> weights;
  if (hosts_ != nullptr) {
    on_hosts = {key, extent};
    job.reference_fd = 0;  // there is one; each host has its own
    if (reference_on_hosts_ == key && hosts_->has_reference()) return std::nullopt;
    reference_on_hosts_.clear();
  } else if (const auto known = references_.find(key); known != references_.end()) {
    job.reference_fd = known->second.fd();
    return std::nullopt;
  } else {
    make_room_for(extent.bytes());
    reference.reference_fd = weights.emplace(ReferenceWeights::create(extent)).fd();
  }
  launch::RankChannels channels = channels_for(reference);
  const auto result = launch_run(reference, channels, progress_, hosts_, on_hosts);
  if (result.interrupted || result.failure) return result.failure;
  if (weights) {
    job.reference_fd = weights->fd();
    references_.emplace(key, std::move(*weights));
  } else {
    reference_on_hosts_ = key;
  }
  return std::nullopt;
}

launch::RankChannels RunExecutor::channels_for(const TrainingJob& job) const {
  launch::ChannelLayout layout = channel_layout(job, model_);
  if (hosts_ != nullptr && job.is_reference()) layout.ranks = hosts_->count();
  return launch::RankChannels::create(layout);
}

std::vector<report::MachineSnapshot> RunExecutor::snapshots() const {
  return hosts_ != nullptr ? hosts_->snapshots() : std::vector{take_machine_snapshot()};
}

// Forgets references while they would fill more than a quarter of the memory with the next one. A
// later run that needs one of them computes it again.
void RunExecutor::make_room_for(std::size_t bytes) {
  const std::uint64_t most = memory_limit(read_host_limits()).bytes / 4;
  std::uint64_t all = bytes;
  for (const auto& [key, weights] : references_) all += weights.bytes();
  while (all > most && !references_.empty()) {
    all -= references_.begin()->second.bytes();
    references_.erase(references_.begin());
  }
}

}  // namespace ddpbench::bench
