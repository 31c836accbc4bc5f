// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_session.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/math.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/rank/verification.h"
#include "kernels/nn/weights.h"
#include "parallel/training_state.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

report::DeviceRow describe(const Device& device, int replica, bool server, std::vector<int> cores) {
  report::DeviceRow result;
  result.rank = replica;
  result.role = server ? "server" : "worker";
  result.device = device.name();
  result.cores = std::move(cores);
  result.gpu_telemetry.reason = result.driver_bytes.reason = "the device is no GPU";
  const MemoryUsage usage = device.memory();
  result.peak_bytes = usage.total_peak_bytes;
  for (std::size_t c = 0; c < kMemoryCategoryCount; ++c) {
    result.by_category_bytes[std::string(to_string(static_cast<MemoryCategory>(c)))] =
        usage.peak_bytes[c];
  }
  return result;
}

}  // namespace

RankSession::RankSession(const TrainingJob& job, const RankInputs& inputs,
                         launch::RankWriter& writer)
    : job_(job),
      inputs_(inputs),
      writer_(writer),
      trainer_(job, inputs, writer),
      saver_(
          trainer_, [this] { await_slower_workers(fmt::format("to_save/{}", saves_)); },
          [this] { wait_for_workers(fmt::format("saved/{}", saves_++)); },
          [this] { wait_a_moment(); }) {
  result_.host = inputs_.host.empty() ? host_name() : inputs_.host;
  read_clock();
  result_.parameters = trainer_.model().trained_count();
  result_.calls = trainer_.calls();
  publish();  // for a run that ends early: its devices are known
}

void RankSession::run() {
  try {
    run_role();
  } catch (const std::exception& error) {
    report_error(writer_, error);
    trainer_.publish_server_trace();
    // Peers and this rank's communication thread stop before objects that they use are destroyed.
    trainer_.abort(error.what());
    publish_result();
    throw;
  }
}

void RankSession::run_role() {
  if (trainer_.is_server()) {
    writer_.state(launch::RankState::training);
    result_.pushes = trainer_.strategy().serve();
    trainer_.publish_server_trace();
  } else if (job_.options.dry_run) {
    result_.warmup_s = 0;  // of a step, in the last cycle
    trainer_.take_steps(job_.rehearsed_steps, false, 0,
                        [this, left = job_.rehearsed_steps]() mutable {
                          const int cycle = cycle_steps(job_);
                          if (left-- <= cycle)
                            *result_.warmup_s += trainer_.recorder().last_step_s() / cycle;
                          return true;
                        });
    trainer_.strategy().finish();
  } else if (job_.is_reference()) {
    writer_.state(launch::RankState::verifying);
    compute_reference(trainer_, *inputs_.reference_out);
  } else {
    if (inputs_.reference != nullptr) verify();
    if (job_.options.epochs > 0) {
      warm_up();
      trainer_.resume();
      train();
      save_weights();  // also where a checkpoint could not be written
      count_saving(saver_.finish());
    } else {
      result_.warmup_steps = 0;
      evaluate({.begin_s = trainer_.now_s(), .end_s = trainer_.now_s()});
      save_weights();
    }
    trainer_.strategy().finish();
  }
  read_clock();
  publish();
  writer_.state(launch::RankState::finished);
}

// A run that is over, or fails anyway, does not end for want of this.
void RankSession::read_clock() {
  if (!inputs_.measures_clock) return;
  try {
    result_.clock.push_back(bench::read_clock(*inputs_.store));
  } catch (const Error&) {
    // The report says that the clock was not measured.
  }
}

void RankSession::verify() {
  writer_.state(launch::RankState::verifying);
  const double begin = trainer_.now_s();
  if (!trainer_.strategy().split().empty()) {
    inputs_.reference->restrict_to(trainer_.model(),
                                   trainer_.strategy().replicas()[0]->graph().model());
  }
  result_.verification = compare_with_reference(trainer_, *inputs_.reference);
  result_.verify_s = trainer_.now_s() - begin;
  publish();
  check_verification(trainer_, result_.verification);
  trainer_.strategy().reset();
  // What the verification took would hide what the strategy saves.
  inputs_.reference->unload();
  reset_peak_rss();
  for (const auto& device : trainer_.devices().devices) device->reset_memory_peaks();
}

void RankSession::warm_up() {
  writer_.state(launch::RankState::warming_up);
  const double begin = trainer_.now_s();
  result_.warmup_steps = warm_up_steps();
  if (warmup_step_s_.size() >= report::kFewestForSteady) {
    result_.warmup_steady = report::is_steady(warmup_step_s_);
  }
  const double step_s = trainer_.recorder().last_step_s();
  if (step_s > 0) trainer_.recorder().choose_interval(step_s);
  trainer_.strategy().reset();
  result_.warmup_s = trainer_.now_s() - begin;
}

// Returns the number of steps taken, which is the same on all ranks.
std::int64_t RankSession::warm_up_steps() {
  const std::int64_t cycle = cycle_steps(job_);
  const std::int64_t limit = round_up(warmup_limit(job_.options), cycle);
  warmup_step_s_.reserve(static_cast<std::size_t>(std::min<std::int64_t>(limit, 4096)));
  std::int64_t done = 0;
  double cycle_s = 0;
  trainer_.take_steps(limit, false, 0, [&] {
    cycle_s += trainer_.recorder().last_step_s();
    if (++done % cycle != 0) return true;
    warmup_step_s_.push_back(std::exchange(cycle_s, 0) / static_cast<double>(cycle));
    return done < limit && warm_up_goes_on(done / cycle);
  });
  return done;
}

// Rank 0 looks every few steps whether its step times are steady, and tells the others through the
// store. Its times suffice: the steps of all ranks wait for the slowest one.
bool RankSession::warm_up_goes_on(std::int64_t done) {
  constexpr std::int64_t kLookInterval = 5;
  const auto first = std::max<std::int64_t>(ceil_div(job_.options.warmup_steps, cycle_steps(job_)),
                                            report::kFewestForSteady);
  if (done < first || (done - first) % kLookInterval != 0) return true;
  if (trainer_.world() == nullptr) return !report::is_steady(warmup_step_s_);
  const std::string key = fmt::format("warm_up/{}", done);
  if (inputs_.rank == 0) inputs_.store->set(key, report::is_steady(warmup_step_s_) ? "end" : "go");
  return inputs_.store->get(key, wait_limit_s(job_.options.timeout_s)) == "go";
}

void RankSession::train() {
  Replica& replica = *trainer_.strategy().replicas()[0];
  if (job_.options.observe) {
    progress_.emplace(replica.device(), replica.stream(), replica.totals(), writer_,
                      timed_steps(job_));
    const double step_s = trainer_.recorder().last_step_s();
    if (step_s > 0) progress_->choose_interval(step_s);
  }
  publish();
  wait_for_workers("begin");
  for (int epoch = job_.resumed.epoch; epoch < job_.options.epochs; ++epoch) {
    train_epoch(epoch);
    if (training_ends(result_.epochs.back())) break;
  }
  if (const auto scale = replica.read_loss_scale()) {
    result_.loss_scaling = {scale->scale, scale->skipped};
  }
}

void RankSession::save_weights() {
  Replica& replica = *trainer_.strategy().replicas()[0];
  result_.diverged_tensor = nn::find_not_finite(replica.graph(), replica.device());
  if (job_.options.save_model.empty()) return;
  if (replica.graph().plan().has_units()) {
    publish();
    is_measured_ = true;  // what follows takes the memory of all weights, which training does not
    trainer_.strategy().publish();
  }
  const double begin = trainer_.now_s();
  const std::vector<nn::NamedTensor> tensors =
      gather_weights(trainer_.strategy(), trainer_.world());
  // Weights that have become useless replace nothing.
  const bool useful = nn::find_not_finite(tensors).empty() && result_.diverged_step == 0;
  if (inputs_.rank != 0 || !useful) return;
  nn::write_safetensors(job_.options.save_model, tensors, job_.options.force);
  result_.save_s = result_.save_s.value_or(0) + trainer_.now_s() - begin;
}

void RankSession::count_saving(double held_s) {
  if (job_.options.checkpoint.empty()) return;
  result_.save_s = result_.save_s.value_or(0) + held_s;
  result_.checkpoints = saver_.saved();
}

// It is the last one, it reached --until-accuracy, or the loss of a worker is no longer finite. A
// rank that went on alone would wait for the others for ever, so all decide by the same sums.
bool RankSession::training_ends(const EpochResult& epoch) {
  const bool last = epoch.epoch + 1 == job_.options.epochs;
  const auto& wanted = job_.options.wanted_accuracy();
  if (last && !wanted) return true;
  const EpochSums sums = sum_over_workers(epoch);
  if (last || sums.diverged > 0) return true;
  if (!wanted || sums.counted == 0) return false;
  const double accuracy = job_.options.until_miou ? report::mean_iou(sums.classes).value_or(0)
                                                  : static_cast<double>(sums.correct) /
                                                        static_cast<double>(sums.counted);
  writer_.accuracy(accuracy);
  return report::reaches_accuracy(accuracy, wanted->value / 100);
}

// Each worker adds what it knows in the store, and looks when all have.
RankSession::EpochSums RankSession::sum_over_workers(const EpochResult& epoch) {
  EpochSums sums{.counted = static_cast<std::int64_t>(epoch.test_counted),
                 .correct = static_cast<std::int64_t>(epoch.test_correct),
                 .diverged = result_.diverged_step != 0 ? 1 : 0};
  if (job_.options.until_miou) sums.classes = epoch.test_classes;
  if (trainer_.world() == nullptr) return sums;
  sums.classes.resize(job_.options.until_miou ? static_cast<std::size_t>(trainer_.model().classes())
                                              : 0);
  std::vector<std::int64_t*> numbers = {&sums.counted, &sums.correct, &sums.diverged};
  for (report::ClassCount& each : sums.classes)
    numbers.insert(numbers.end(), {&each.hits, &each.labels, &each.predicted});
  const auto add = [&](std::size_t i, std::int64_t amount) {
    return inputs_.store->add(fmt::format("epoch_end/{}/{}", epoch.epoch, i), amount);
  };
  for (std::size_t i = 0; i < numbers.size(); ++i) add(i, *numbers[i]);
  wait_for_workers(fmt::format("epoch/{}", epoch.epoch));
  for (std::size_t i = 0; i < numbers.size(); ++i) *numbers[i] = add(i, 0);
  return sums;
}

// Without this wait, the first rank to finish its evaluation would wait in the next epoch's first
// step, whose time would include the others'. The servers of ps serve steps alone, so its workers
// meet at the store.
void RankSession::wait_for_workers(const std::string& when) {
  const int workers = job_.cell.world_size;
  if (trainer_.world() == nullptr || workers == 1) return;
  if (job_.cell.servers == 0) {
    trainer_.world()->barrier({.start = comm::Start::deferred}).synchronize();
  } else {
    comm::store_barrier(*inputs_.store, when, workers, wait_limit_s(job_.options.timeout_s));
  }
}

// Before it evaluates or saves, a worker of asynchronous servers waits for workers that may be many
// steps behind. Each of these steps is progress.
void RankSession::await_slower_workers(const std::string& when) {
  if (strategy_config(job_).max_staleness == 0) return;
  for (std::int64_t amount = 1; inputs_.store->add(when, amount) < job_.cell.world_size;
       amount = 0) {
    trainer_.world()->check();
    wait_a_moment();
  }
}

void RankSession::wait_a_moment() {
  writer_.state(launch::RankState::training);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void RankSession::train_epoch(int epoch) {
  writer_.state(launch::RankState::training);
  for (const auto& device : trainer_.devices().devices) device->calibrate_clock();
  EpochResult row{.epoch = epoch};
  const std::int64_t first = epoch == job_.resumed.epoch ? job_.resumed.step : 0;
  const std::int64_t steps = job_.steps_per_epoch - first;
  row.begin_s = trainer_.now_s();
  if (trainer_.sampler() != nullptr) trainer_.sampler()->begin();
  const auto goes_on = [&] {
    if (progress_) progress_->end_step();
    if (const double held_s = saver_.after_step(); held_s > 0) {
      row.saving_s += held_s;
      count_saving(held_s);
      publish_result();  // a rank may die before the epoch ends
    }
    return true;
  };
  trainer_.take_steps(steps, true, epoch, goes_on, first);
  trainer_.recorder().finish_steps();
  if (cycle_steps(job_) > 1) {  // the last one may be cut: its average belongs to the training
    trainer_.strategy().publish();
    trainer_.strategy().replicas()[0]->stream().synchronize();
  }
  await_slower_workers(fmt::format("trained/{}", epoch));
  row.end_s = trainer_.now_s();
  if (trainer_.sampler() != nullptr) trainer_.sampler()->end();
  if (!job_.gpus.empty()) {  // steps that run ahead or are replayed do not look
    for (comm::Communicator* one : trainer_.devices().communicators()) one->check();
  }
  const ops::LossTotals totals = trainer_.take_totals();
  if (progress_) progress_->end_epoch(totals);
  const int passes = strategy_config(job_).accumulation_steps;
  row.samples = trainer_.plan().is_last ? steps * trainer_.plan().batch * passes : 0;
  row.loss_sum = totals.loss_sum;
  row.correct = totals.correct;
  row.counted = totals.counted;
  if (totals.diverged_step != 0 && result_.diverged_step == 0) {
    result_.diverged_step =
        epoch * job_.steps_per_epoch + first + static_cast<std::int64_t>(totals.diverged_step);
  }
  if (totals.counted > 0) writer_.loss(totals.loss_sum / static_cast<double>(totals.counted));
  result_.train_s = result_.train_s.value_or(0) + row.end_s - row.begin_s - row.saving_s;
  count_saving(saver_.after_epoch());
  evaluate(row);
}

void RankSession::evaluate(EpochResult row) {
  writer_.state(launch::RankState::evaluating);
  TestTotals test = trainer_.evaluate();
  row.test_loss_sum = test.loss.loss_sum;
  row.test_correct = test.loss.correct;
  row.test_counted = test.loss.counted;
  row.test_classes = std::move(test.classes);
  row.test_samples = trainer_.test_samples();
  result_.evaluate_s = result_.evaluate_s.value_or(0) + trainer_.now_s() - row.end_s;
  result_.epochs.push_back(row);
  publish();
}

void RankSession::publish() {
  if (is_measured_) return publish_result();
  using Telemetry = Known<report::GpuTelemetry>;
  RankDevices& devices = trainer_.devices();
  const bool server = trainer_.is_server();
  result_.devices.clear();
  result_.device_model = devices.devices.front()->model();
  result_.all_reduce = all_reduces_run(devices.world.get());
  result_.traffic = trainer_.traffic();
  result_.peak_rss_bytes = peak_rss_bytes();
  note_driver_bytes(devices, "at_end");
  for (std::size_t i = 0; i < devices.devices.size(); ++i) {
    const int replica = server ? inputs_.rank : trainer_.plan().replicas[i];
    result_.devices.push_back(describe(*devices.devices[i], replica, server,
                                       job_.cores.at(static_cast<std::size_t>(replica))));
    if (!job_.is_on_gpu(replica)) continue;
    report::DeviceRow& device = result_.devices.back();
    device.cores.clear();
    device.driver_bytes = Known<report::DriverBytes>::of(devices.driver_bytes[i]);
    device.gpu_telemetry = trainer_.sampler() != nullptr
                               ? trainer_.sampler()->telemetry(i)
                               : Telemetry::missing(server ? "a server" : "observing is off");
  }
  publish_result();
}

// Without asking the devices, one of which may have failed.
void RankSession::publish_result() {
  result_.load_s = trainer_.load_s();
  if (progress_) result_.progress = progress_->points();
  writer_.result(encoded(result_));
}

}  // namespace ddpbench::bench
