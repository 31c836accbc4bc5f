// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "bench/host/environment_capture.h"
#include "bench/host/interrupt.h"
#include "bench/rank/memory_check.h"
#include "bench/rank/memory_meeting.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/weights.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/strategies.h"
#include "reports/metrics/steady.h"

namespace ddpbench::bench {
namespace {

// Steps that the host runs ahead of a device that works on its own: enough to hide the host's
// delays, and one less than there are batches in flight, so that the host never waits for the
// device while it asks for data.
constexpr std::size_t kStepsAhead = 2;

DeviceResult describe(const Device& device, int replica, bool server, std::vector<int> cores) {
  DeviceResult result{.replica = replica,
                      .role = server ? "server" : "worker",
                      .device = device.name(),
                      .model = device.model(),
                      .cores = std::move(cores),
                      .by_category_bytes = {}};
  const MemoryUsage usage = device.memory();
  result.peak_bytes = usage.total_peak_bytes;
  for (std::size_t c = 0; c < kMemoryCategoryCount; ++c) {
    result.by_category_bytes[std::string(to_string(static_cast<MemoryCategory>(c)))] =
        usage.peak_bytes[c];
  }
  return result;
}

bool concerns_rank(const Injection& injection, int rank) {
  const bool timed_fault = injection.kind == "slow" || injection.kind == "kill" ||
                           injection.kind == "stop" || injection.kind == "throw";
  return timed_fault && (injection.rank < 0 || injection.rank == rank);
}

}  // namespace

RankSession::RankSession(const RunSpec& spec, const RankInputs& inputs, launch::RankWriter& writer)
    : spec_(spec),
      inputs_(inputs),
      writer_(writer),
      config_(strategy_config(spec)),
      process_(plan_strategy(config_).processes.at(static_cast<std::size_t>(inputs.rank))),
      model_(nn::load_model_file(spec.model_path)),
      dataset_(data::Dataset::view(spec.dataset, inputs.decoded)) {
  writer_.state(launch::RankState::setup);
  result_.host = host_name();
  result_.parameters = model_.parameter_count();
  make_devices();
  try {
    make_strategy();
    if (!is_server()) make_source();
  } catch (const std::exception& error) {
    if (devices_.world) devices_.world->abort(error.what());
    throw;
  }
  publish();  // what a run that ends early can say of its devices
}

RankSession::~RankSession() = default;

void RankSession::make_devices() {
  RankPlace place{.rank = inputs_.rank,
                  .processes = static_cast<int>(plan_strategy(config_).processes.size()),
                  .devices = process_.replicas,
                  .store = inputs_.store,
                  // Marks from two threads may swallow each other: a heartbeat needs to grow, not
                  // to count.
                  .progress = [this] { writer_.collective(); },
                  .joining = [this] { writer_.state(launch::RankState::setup); }};
  // A server's device follows the replicas' devices.
  if (is_server()) place.devices = {inputs_.rank};
  devices_ = make_rank_devices(spec_, place);
  // What waits for peers has the same limit and knows more of them: it is to speak first; and both
  // before the supervisor, who waits a second longer.
  constexpr double kAfterPeers_s = 0.5;
  const bool alone = devices_.world == nullptr && devices_.local.empty();
  wait_ = std::make_shared<DeviceWait>(
      DeviceWaitOptions{.rank = inputs_.rank,
                        .device = devices_.devices[0]->name(),
                        .limit_s = wait_limit_s(spec_.options) + (alone ? 0 : kAfterPeers_s),
                        .interrupted = inputs_.interrupted});
}

void RankSession::make_strategy() {
  if (!spec_.options.load_model.empty()) {
    loaded_weights_ = nn::read_safetensors(spec_.options.load_model);
  }
  RecorderOptions recorder{.observe = spec_.options.observe, .injections = {}, .wait = wait_};
  if (!devices_.devices[0]->is_host_accessible()) recorder.steps_ahead = kStepsAhead;
  if (!spec_.options.trace_path.empty() && !spec_.is_reference()) {
    recorder.trace_steps = static_cast<std::uint32_t>(spec_.options.trace_steps);
  }
  for (const Injection& injection : spec_.options.injections) {
    if (!spec_.is_reference() && concerns_rank(injection, inputs_.rank)) {
      recorder.injections.push_back(injection);
    }
  }
  recorder_ = std::make_unique<StepRecorder>(*devices_.devices[0], writer_, std::move(recorder));
  StrategyContext context;
  context.model = &model_;
  for (const auto& device : devices_.devices) context.devices.push_back(device.get());
  for (const auto& backend : devices_.backends) context.backends.push_back(backend.get());
  for (const auto& local : devices_.local) context.local.push_back(local.get());
  context.world = devices_.world.get();
  marker_ = make_heard_marker(spec_, is_server() ? inputs_.rank : process_.replicas[0]);
  if (marker_) ranges_.emplace(*marker_, *recorder_);
  context.observer = &observer();
  context.group = devices_.group.get();
  context.initialize = [this](nn::Graph& graph) {
    if (loaded_weights_.empty()) {
      nn::initialize_parameters(graph, spec_.options.seed);
    } else {
      nn::import_weights(graph, loaded_weights_, spec_.options.load_model);
    }
  };
  context.admit = [this](std::size_t i, MemoryNeeds& needs) { admit(i, needs); };
  strategy_ = ddpbench::make_strategy(config_);
  strategy_->setup(context);
  if (is_server()) return;
  Stream& stream = strategy_->replicas()[0]->stream();
  recorder_->follow(stream);
  observe_layers();
  runner_.emplace(StepRunnerOptions{.strategy = strategy_.get(),
                                    .stream = &stream,
                                    .recorder = recorder_.get(),
                                    .world = devices_.world.get(),
                                    .records = records_steps(spec_) && stream.can_record()});
  sampler_ = make_gpu_sampler(spec_, process_.replicas);
}

// Devices that have their memory together are admitted together, each by its own thread or process.
void RankSession::admit(std::size_t i, MemoryNeeds& needs) {
  add_session_memory(spec_, process_, dataset_, i, needs);
  const bool threads = !devices_.local.empty();
  comm::Communicator* const peers = threads ? devices_.local[i].get() : devices_.world.get();
  if (peers == nullptr) return check_claims({{memory_claim(spec_, process_, needs)}});
  const int index = threads ? static_cast<int>(i) : inputs_.rank;
  const MemoryMeeting meeting({.store = threads ? local_store_.get() : inputs_.store,
                               .devices = peers->size(),
                               .timeout_s = wait_limit_s(spec_.options),
                               .check_peers = [peers] { peers->check(); }});
  meeting.await_plans(index);
  check_claims(meeting.exchange(index, memory_claim(spec_, process_, needs)));
}

// dp: the primary's, as its phases.
void RankSession::observe_layers() {
  nn::Graph& graph = strategy_->replicas()[0]->graph();
  if (recorder_->layers() != nullptr) result_.calls = graph.call_names();
  if (ranges_) {
    ranges_->name_calls(graph.call_names(), recorder_->layers());
    graph.observe_layers(&*ranges_);
  } else if (recorder_->layers() != nullptr) {
    graph.observe_layers(recorder_->layers());
  }
}

PhaseObserver& RankSession::observer() {
  if (ranges_) return *ranges_;
  return *recorder_;
}

void RankSession::make_source() {
  BatchSourceOptions options = batch_source_options(spec_, process_);
  options.wait = wait_;
  Device& device = *devices_.devices[0];
  source_ = spec_.options.residency == "device"
                ? make_resident_source(device, *devices_.backends[0], dataset_.train,
                                       make_sampler(spec_), options)
                : make_loader_source(device, dataset_.train, make_sampler(spec_), options);
  evaluator_.emplace(spec_, dataset_.test, process_.replicas, wait_);
}

void RankSession::run() {
  try {
    run_role();
  } catch (const std::exception& error) {
    // Peers and this rank's own communication thread stop before anything that they use goes away.
    if (devices_.world) devices_.world->abort(error.what());
    throw;
  }
}

void RankSession::run_role() {
  if (is_server()) {
    writer_.state(launch::RankState::training);
    strategy_->serve();
  } else if (spec_.is_reference()) {
    compute_reference();
  } else {
    if (inputs_.reference != nullptr) verify();
    warm_up();
    train();
    strategy_->finish();
  }
  publish();
  writer_.state(launch::RankState::finished);
}

void RankSession::compute_reference() {
  writer_.state(launch::RankState::verifying);
  const nn::Graph& graph = strategy_->replicas()[0]->graph();
  const auto before = nn::export_weights(graph);
  steps(spec_.options.verify_steps, false, 0);
  inputs_.reference_out->store(before, nn::export_weights(graph));
}

void RankSession::verify() {
  writer_.state(launch::RankState::verifying);
  const double begin = devices_.devices[0]->now_s();
  std::vector<std::vector<nn::NamedTensor>> before;
  strategy_->publish_parameters();
  for (Replica* replica : strategy_->replicas()) {
    before.push_back(nn::export_weights(replica->graph()));
  }
  steps(spec_.verify_steps(), false, 0);
  strategy_->publish_parameters();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto after = nn::export_weights(strategy_->replicas()[i]->graph());
    result_.verification.push_back(inputs_.reference->compare(before[i], after));
  }
  result_.verify_s = devices_.devices[0]->now_s() - begin;
  publish();
  for (const VerificationResult& result : result_.verification) {
    // Written so that NaN fails too.
    if (!(result.max_relative_error <= spec_.verification_tolerance)) {
      throw VerificationError(fmt::format(
          "after {} steps {} differs from the reference by {:.3g} (relative error of its change), "
          "tolerance {:.3g}: {} on {} devices does not compute what one device computes",
          spec_.verify_steps(), result.worst_tensor, result.max_relative_error,
          spec_.verification_tolerance, spec_.cell.strategy, spec_.cell.world_size));
    }
  }
  check_replicas_equal();
  strategy_->reset();
}

// Compares the parameters' hashes over all replicas of the run: within this process directly,
// between processes through the store.
void RankSession::check_replicas_equal() {
  const std::uint64_t own = result_.verification[0].weights_hash;
  std::uint64_t expected = own;
  if (inputs_.store != nullptr && devices_.world != nullptr) {
    if (inputs_.rank == 0) inputs_.store->set("verification/weights_hash", std::to_string(own));
    expected =
        std::stoull(inputs_.store->get("verification/weights_hash", wait_limit_s(spec_.options)));
  }
  for (const VerificationResult& result : result_.verification) {
    if (result.weights_hash != expected) {
      throw VerificationError(fmt::format(
          "after {} steps the parameters of a replica on rank {} are not bit-equal to replica 0's",
          spec_.verify_steps(), inputs_.rank));
    }
  }
}

void RankSession::warm_up() {
  writer_.state(launch::RankState::warming_up);
  const double begin = devices_.devices[0]->now_s();
  result_.warmup_steps = warm_up_steps();
  if (result_.warmup_steps >= static_cast<std::int64_t>(report::kFewestForSteady)) {
    result_.warmup_steady = report::is_steady(warmup_step_s_);
  }
  if (recorder_->last_step_s() > 0) recorder_->choose_interval(recorder_->last_step_s());
  strategy_->reset();
  result_.warmup_s = devices_.devices[0]->now_s() - begin;
}

// Epochs follow each other when the warm-up is longer than one. Returns how many steps it took, the
// same on all ranks.
std::int64_t RankSession::warm_up_steps() {
  const std::int64_t limit = warmup_limit(spec_.options);
  warmup_step_s_.reserve(static_cast<std::size_t>(std::min<std::int64_t>(limit, 4096)));
  std::int64_t done = 0;
  for (int epoch = 0; done < limit; ++epoch) {
    source_->begin_epoch(epoch, std::min(limit - done, spec_.steps_per_epoch));
    const std::int64_t end = std::min(limit, done + spec_.steps_per_epoch);
    while (done < end) {
      one_step(false, epoch);
      warmup_step_s_.push_back(recorder_->last_step_s());
      if (!warm_up_goes_on(++done)) return done;
    }
  }
  return done;
}

// After `done` steps. Rank 0 looks every few steps whether its step times are steady, and tells the
// others through the store: its steps wait for the slowest rank, as everyone's do, and ranks that
// decided for themselves would wait for each other for ever. When nobody needs to look, all know.
bool RankSession::warm_up_goes_on(std::int64_t done) {
  constexpr std::int64_t kLookInterval = 5;
  const auto first = std::max<std::int64_t>(spec_.options.warmup_steps, report::kFewestForSteady);
  if (done >= warmup_limit(spec_.options)) return false;
  if (done < first || (done - first) % kLookInterval != 0) return true;
  if (devices_.world == nullptr) return !report::is_steady(warmup_step_s_);
  const std::string key = fmt::format("warm_up/{}", done);
  if (inputs_.rank == 0) inputs_.store->set(key, report::is_steady(warmup_step_s_) ? "end" : "go");
  return inputs_.store->get(key, wait_limit_s(spec_.options)) == "go";
}

void RankSession::train() {
  for (int epoch = 0; epoch < spec_.options.epochs; ++epoch) train_epoch(epoch);
  if (!spec_.options.save_model.empty() && inputs_.rank == 0) {
    nn::write_safetensors(spec_.options.save_model,
                          nn::export_weights(strategy_->replicas()[0]->graph()),
                          spec_.options.force);
  }
}

// Ranks evaluate shards of their own: without this, whoever is done first would wait for the others
// in the next epoch's first step, and that step would be timed with their evaluation in it. The
// servers of ps serve steps alone, so its workers meet at the store.
void RankSession::wait_for_workers(int epoch) {
  const int workers = spec_.cell.world_size;
  if (devices_.world == nullptr || workers == 1) return;
  if (spec_.cell.servers == 0) {
    devices_.world->barrier({.start = comm::Start::deferred}).synchronize();
  } else {
    comm::store_barrier(*inputs_.store, fmt::format("epoch/{}", epoch), workers,
                        wait_limit_s(spec_.options));
  }
}

void RankSession::train_epoch(int epoch) {
  publish();
  wait_for_workers(epoch);
  writer_.state(launch::RankState::training);
  for (const auto& device : devices_.devices) device->calibrate_clock();
  EpochResult row{.epoch = epoch};
  row.begin_s = devices_.devices[0]->now_s();
  if (sampler_) sampler_->begin();
  steps(spec_.steps_per_epoch, true, epoch);
  recorder_->finish_steps();
  row.end_s = devices_.devices[0]->now_s();
  if (sampler_) sampler_->end();
  check_communicators();
  const ops::LossTotals totals = take_totals();
  row.samples = static_cast<std::int64_t>(totals.samples);
  row.loss_sum = totals.loss_sum;
  row.correct = totals.correct;
  result_.train_s = result_.train_s.value_or(0) + row.end_s - row.begin_s;

  writer_.state(launch::RankState::evaluating);
  evaluate(row);
  result_.evaluate_s = result_.evaluate_s.value_or(0) + devices_.devices[0]->now_s() - row.end_s;
  result_.epochs.push_back(row);
  publish();
}

// Steps that run ahead, or are replayed, do not ask whether communication works. Before what they
// computed is used.
void RankSession::check_communicators() {
  if (spec_.gpus.empty()) return;
  if (devices_.world) devices_.world->check();
  for (const auto& local : devices_.local) local->check();
}

// Runs `count` steps; epochs follow each other when there are more than one has.
void RankSession::steps(std::int64_t count, bool timed, int epoch) {
  for (std::int64_t done = 0; done < count; ++epoch) {
    const std::int64_t now = std::min(count - done, spec_.steps_per_epoch);
    source_->begin_epoch(epoch, now);
    for (std::int64_t i = 0; i < now; ++i) one_step(timed, epoch);
    done += now;
  }
}

void RankSession::one_step(bool timed, int epoch) {
  if (inputs_.interrupted && inputs_.interrupted()) throw Interrupted("interrupted");
  recorder_->begin_step(static_cast<std::uint32_t>(epoch), timed);
  Stream& stream = strategy_->replicas()[0]->stream();
  StepInput input;
  {
    const ScopedPhase phase(&observer(), Phase::data_wait, stream);
    input = source_->next(stream);
  }
  runner_->run(input);
  source_->consumed(stream);
  recorder_->end_step([this] { strategy_->report(*recorder_); });
}

// dp's totals are on the primary; other replicas have none.
ops::LossTotals RankSession::take_totals() {
  ops::LossTotals sum;
  for (Replica* replica : strategy_->replicas()) sum += replica->take_totals();
  return sum;
}

void RankSession::evaluate(EpochResult& epoch) {
  strategy_->publish_parameters();
  const auto alive = [this] { writer_.state(launch::RankState::evaluating); };
  const ops::LossTotals totals =
      evaluator_->run(strategy_->replicas(), devices_.group.get(), alive);
  epoch.test_correct += totals.correct;
  epoch.test_samples += static_cast<std::int64_t>(totals.samples);
}

void RankSession::publish() {
  result_.devices.clear();
  note_driver_bytes(devices_, "at_end");
  for (std::size_t i = 0; i < devices_.devices.size(); ++i) {
    const int replica = is_server() ? inputs_.rank : process_.replicas[i];
    result_.devices.push_back(describe(*devices_.devices[i], replica, is_server(),
                                       spec_.cores.at(static_cast<std::size_t>(replica))));
    if (!spec_.is_on_gpu(replica)) continue;
    result_.devices.back().cores.clear();
    result_.devices.back().driver_bytes = devices_.driver_bytes[i];
    result_.devices.back().gpu_telemetry =
        sampler_
            ? sampler_->telemetry(i)
            : Known<report::GpuTelemetry>::missing(is_server() ? "a server" : "observing is off");
  }
  writer_.result(to_json_text(result_));
}

bool RankSession::device_hangs() {
  constexpr double kMoment_s = 2;
  if (wait_->gave_up()) return true;
  if (is_server()) return false;
  try {
    const auto end = devices_.devices[0]->make_event();
    strategy_->replicas()[0]->stream().record(*end);
    DeviceWait moment({.limit_s = kMoment_s});
    moment.until(*end, "");
  } catch (const CommTimeout&) {
    return true;
  } catch (const Error&) {
    // A device that fails waits for nothing.
  }
  return false;
}

void run_session(std::unique_ptr<RankSession> session,
                 const std::function<void(RankSession&)>& body, bool& left_behind) {
  try {
    body(*session);
  } catch (...) {
    left_behind = session->device_hangs();
    if (left_behind) static_cast<void>(session.release());
    throw;
  }
}

void end_process(int exit_code) {
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace ddpbench::bench
