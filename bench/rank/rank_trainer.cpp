// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_trainer.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "bench/host/host_devices.h"
#include "bench/host/terminal.h"
#include "bench/options/options.h"
#include "bench/plan/training_checkpoint.h"
#include "bench/rank/run_memory.h"
#include "datasets/loader.h"
#include "kernels/nn/checkpoint.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/weights.h"
#include "parallel/launch/grace_times.h"
#include "parallel/strategies.h"
#include "parallel/training_state.h"

namespace ddpbench::bench {
namespace {

// Steps that the host queues ahead of an asynchronous device. They are enough to hide the host's
// delays. They are one less than the batches in flight, so that the host never waits for the device
// while it asks for data.
constexpr std::size_t kStepsAhead = 2;

// The faults that --inject plants on this rank or replica, of those that are wanted.
std::vector<Injection> own_faults(const TrainingJob& job, int rank,
                                  bool (*wanted)(const Injection&)) {
  std::vector<Injection> faults;
  for (const Injection& injection : job.options.injections) {
    const bool own = injection.rank < 0 || injection.rank == rank;
    if (own && wanted(injection) && !job.is_reference()) faults.push_back(injection);
  }
  return faults;
}

bool strikes_steps(const Injection& injection) { return !strikes_calls(injection); }
bool slows_phases(const Injection& injection) {
  return injection.kind == "slow" && strikes_steps(injection);
}

// The seed of the weights that the rank starts from.
std::uint64_t start_seed(const TrainingJob& job, int rank) {
  std::uint64_t seed = job.options.seed;
  if (plan_strategy(strategy_config(job)).ranks.size() == 1) return seed;
  for (const Injection& injection : job.options.injections) {
    if (injection.kind == "seed" && injection.rank == rank) ++seed;
  }
  return seed;
}

// Samples the GPUs of these devices of the run while the process trains.
std::unique_ptr<GpuSampler> make_gpu_sampler(const TrainingJob& job,
                                             const std::vector<int>& devices) {
  if (job.gpus.empty() || !job.options.observe) return nullptr;
  const CudaProbe probe = cuda_module().probe();
  GpuMonitorOptions options;
  for (const int device : devices) {
    const int ordinal = job.gpus.at(static_cast<std::size_t>(device));
    options.uuids.push_back(probe.devices.at(static_cast<std::size_t>(ordinal)).uuid);
  }
  return std::make_unique<GpuSampler>(cuda_module().make_monitor(options), devices.size());
}

}  // namespace

RankTrainer::RankTrainer(const TrainingJob& job, const RankInputs& inputs,
                         launch::RankWriter& writer)
    : job_(job),
      inputs_(inputs),
      writer_(writer),
      config_(strategy_config(job)),
      plan_(plan_strategy(config_).ranks.at(static_cast<std::size_t>(inputs.rank))),
      model_(nn::load_model_file(job.network.path, job.options.crop)),
      dataset_(data::Dataset::view(job.dataset, inputs.decoded)),
      calls_made_(writer, own_faults(job, inputs.rank, strikes_calls)) {
  writer_.state(launch::RankState::setup);
  dataset_.check_labels(model_.loss.ignore_index);
  make_devices();
  try {
    make_recorder();
    make_strategy();
    if (!is_server()) make_source();
  } catch (const std::exception& error) {
    report_error(writer_, error);
    abort(error.what());
    throw;
  }
}

RankTrainer::~RankTrainer() = default;

void RankTrainer::make_devices() {
  // A server's device follows the replicas' devices. Two threads may overwrite each other's marks
  // of progress: a heartbeat only needs to grow.
  devices_ = make_rank_devices(
      job_, inputs_.rank, static_cast<int>(plan_strategy(config_).ranks.size()),
      is_server() ? std::vector<int>{inputs_.rank} : plan_.replicas, inputs_.store.get(),
      {.progress = [this] { writer_.collective(); },
       .watch = &calls_made_,
       .address = inputs_.address});
  // The waits for peers have the same limit and know more of the peers, so they report first. Both
  // report before the supervisor, which waits longer.
  const bool alone = devices_.world == nullptr && devices_.local.empty();
  wait_ = std::make_shared<DeviceWait>(DeviceWaitOptions{
      .rank = inputs_.rank,
      .device = devices_.devices[0]->name(),
      .limit_s = wait_limit_s(job_.options.timeout_s) + (alone ? 0 : launch::kLetOthersSpeak_s)});
}

void RankTrainer::make_recorder() {
  Device& device = *devices_.devices[0];
  const bool traced = !job_.options.trace_path.empty() && !job_.is_reference();
  const auto trace_steps = traced ? static_cast<std::uint32_t>(job_.options.trace_steps) : 0U;
  if (is_server() && traced) {
    server_trace_.emplace(device, writer_, trace_steps, strategy_config(job_).server_rounds());
  }
  // What the reference computes is not timed.
  InterpreterLock* const interpreter = job_.is_reference() ? nullptr : inputs_.interpreter;
  if (job_.is_on_gpu(is_server() ? inputs_.rank : plan_.replicas[0])) {
    marker_ = cuda_module().make_range_marker();
    if (!marker_->is_heard()) marker_.reset();
  }
  RecorderOptions options{.observe = job_.options.observe,
                          .cycle = static_cast<std::uint32_t>(cycle_steps(job_)),
                          .trace_steps = trace_steps,
                          .wait = wait_,
                          .sinks = {.ranges = marker_.get(),
                                    .faults = own_faults(job_, inputs_.rank, strikes_steps),
                                    .interpreter = interpreter}};
  if (!device.is_host_accessible()) options.steps_ahead = kStepsAhead;
  recorder_ = std::make_unique<StepRecorder>(device, writer_, std::move(options));
  for (std::size_t i = 1; i < devices_.devices.size(); ++i) {
    recorder_->add_replica(
        *devices_.devices[i],
        {.faults = own_faults(job_, plan_.replicas[i], slows_phases), .interpreter = interpreter});
  }
}

void RankTrainer::make_strategy() {
  const double begin = now_s();
  if (!job_.options.load_model.empty()) {
    loaded_weights_ = nn::read_safetensors(job_.options.load_model);
    nn::check_finite(loaded_weights_, job_.options.load_model);
  }
  if (!job_.options.resume_training.empty() && !is_server()) {
    TrainingCheckpoint checkpoint = read_training_checkpoint(job_, model_);
    loaded_weights_ = std::move(checkpoint.weights);
    resumed_ = std::move(checkpoint.others);
  }
  if (!loaded_weights_.empty()) load_s_ = now_s() - begin;
  StrategyContext context;
  context.model = &model_;
  for (const auto& device : devices_.devices) context.devices.push_back(device.get());
  for (const auto& backend : devices_.backends) context.backends.push_back(backend.get());
  for (const auto& local : devices_.local) context.local.push_back(local.get());
  for (const auto& one : devices_.statistics) context.statistics.push_back(one.get());
  context.world = devices_.world.get();
  context.alike = devices_.alike.get();
  context.returns = devices_.returns.get();
  context.control = devices_.control.get();
  context.world_spans_hosts = context.world != nullptr && comm_backend(job_.backend).spans_hosts;
  for (std::size_t i = 1; i < devices_.devices.size(); ++i) {
    context.further_observers.push_back(&recorder_->replica(i));
  }
  context.observer = &recorder_->replica();
  if (is_server()) context.observer = server_trace_ ? &*server_trace_ : nullptr;
  context.group = devices_.group.get();
  context.initialize = [this](nn::Graph& graph) {
    if (loaded_weights_.empty()) {
      nn::initialize_parameters(graph, start_seed(job_, inputs_.rank));
    } else {
      const std::string& origin = job_.options.load_model + job_.options.resume_training;
      nn::import_checkpoint(graph,
                            config_.stages > 1
                                ? nn::tensors_of(graph.model(), model_, loaded_weights_)
                                : loaded_weights_,
                            origin);
    }
  };
  context.admit = [this](std::size_t i, MemoryNeeds& needs) { admit(i, needs); };
  context.slice_added = [this] {
    if (slice_added_) slice_added_();
  };
  if (const auto probe = probe_options(job_)) {
    context.probe = {probe->loss_factor, [this] {
                       if (probed_) probed_();
                     }};
  }
  strategy_ = ddpbench::make_strategy(config_);
  strategy_->setup(context);
  if (is_server()) return;
  Stream& stream = strategy_->replicas()[0]->stream();
  recorder_->follow(stream);
  observe_calls();
  runner_.emplace(*strategy_, stream, *recorder_, devices_.world.get(),
                  records_steps(job_) && stream.can_record());
  sampler_ = make_gpu_sampler(job_, plan_.replicas);
}

// Devices that share memory are admitted together, each by its own thread or process.
void RankTrainer::admit(std::size_t i, MemoryNeeds& needs) {
  add_session_memory(job_, plan_, dataset_, i, needs);
  const bool threads = !devices_.local.empty();
  comm::Communicator* const peers = threads ? devices_.local[i].get() : devices_.world.get();
  if (peers == nullptr) return check_claims({{memory_claim(job_, plan_, needs)}});
  const int index = threads ? static_cast<int>(i) : inputs_.rank;
  check_claims(exchange_claims({.store = threads ? local_store_.get() : inputs_.store.get(),
                                .index = index,
                                .devices = peers->size(),
                                .timeout_s = wait_limit_s(job_.options.timeout_s),
                                .check_peers = [peers] { peers->check(); }},
                               [&] { return memory_claim(job_, plan_, needs); }));
}

// Observes the calls of the graphs where somebody wants to know them. All replicas have the same.
void RankTrainer::observe_calls() {
  const bool traced = !job_.options.trace_path.empty() && !job_.is_reference();
  const bool launched = job_.options.emulate_gil_us > 0 && !job_.is_reference();
  const std::vector<Replica*> replicas = strategy_->replicas();
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (!traced && !launched && (marker_ == nullptr || i > 0)) continue;
    nn::Graph& graph = replicas[i]->graph();
    recorder_->replica(i).name_calls(graph.call_names());
    graph.observe_layers(&recorder_->replica(i));
    if (traced) calls_ = graph.call_names();
  }
}

void RankTrainer::make_source() {
  BatchSourceOptions options = batch_source_options(job_, plan_);
  options.wait = wait_;
  Device& device = *devices_.devices[0];
  source_ = job_.options.residency == "device"
                ? make_resident_source(device, *devices_.backends[0], dataset_.train,
                                       make_sampler(job_), options)
                : make_loader_source(device, dataset_.train, make_sampler(job_), options);
  kept_ = kept_batches(job_, plan_);
  for (BatchMemory& batch : kept_) batch.allocate(device);
}

void RankTrainer::take_steps(std::int64_t count, bool timed, int epoch,
                             const std::function<bool()>& goes_on, std::int64_t first) {
  const std::int64_t cycle = cycle_steps(job_);
  for (std::int64_t done = 0; done < count; ++epoch) {
    const std::int64_t now = std::min(count - done, job_.steps_per_epoch - first);
    source_->begin_epoch(epoch, now, std::exchange(first, 0));
    for (std::int64_t i = 0; i < now; ++i) {
      take_step(timed, epoch, count >= cycle ? done + i : cycle);
      if (goes_on && !goes_on()) return;
    }
    done += now;
  }
}

void RankTrainer::resume() {
  if (job_.options.resume_training.empty()) return;
  const double begin = now_s();
  try {
    scatter_state(*strategy_, devices_.world.get(), resumed_, job_.resumed.steps);
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("--resume-training={}: {}", job_.options.resume_training, error.what()));
  }
  resumed_.clear();
  load_s_ = load_s_.value_or(0) + now_s() - begin;
}

void RankTrainer::take_step(bool timed, int epoch, std::int64_t cycle_step) {
  calls_made_.begin_step();
  recorder_->begin_step(static_cast<std::uint32_t>(epoch), timed);
  Replica& primary = *strategy_->replicas()[0];
  Stream& stream = primary.stream();
  taken_.clear();
  input_of(0);
  const bool is_counted = traffic_.value || !traffic_.reason.empty();
  if (!is_counted && cycle_step == 0)
    for (comm::Communicator* one : devices_.communicators()) one->take_traffic();
  runner_->run(inputs_of_step_);
  if (!is_counted && cycle_step + 1 == cycle_steps(job_)) {
    const std::unique_ptr<Event> done = primary.device().make_event();
    stream.record(*done);
    wait_->until(*done, "the first steps");
    count_traffic();
  }
  source_->consumed(stream);
  recorder_->end_step([this] { strategy_->report(recorder_->replica()); }, strategy_->skipped());
}

// The batch of a pass, which comes from the source when it is asked for first.
StepInput RankTrainer::input_of(int pass) {
  const auto index = static_cast<std::size_t>(pass);
  if (index < taken_.size()) return taken_[index];
  Stream& stream = strategy_->replicas()[0]->stream();
  if (pass > 0) source_->consumed(stream);
  const ScopedPhase phase(&recorder_->replica(), Phase::data_wait, stream);
  taken_.push_back(source_->next(stream));
  if (!kept_.empty()) {
    kept_[index].copy(stream, taken_[index]);
    taken_[index] = kept_[index].device();
  }
  return taken_[index];
}

// Those of a stage are one of each replica.
std::pair<int, int> RankTrainer::device_numbers(const comm::Communicator& peers, int peer) const {
  if (&peers != devices_.alike.get()) return {peer, peers.rank()};
  return {peer * config_.stages + plan_.stage, inputs_.rank};
}

// Communicators connect workers in the order of their replicas, and then servers, which have no
// steps: what goes to those is counted where it is sent.
void RankTrainer::count_traffic() {
  std::vector<LinkTraffic> links;
  for (comm::Communicator* one : devices_.communicators()) {
    const std::vector<comm::PeerTraffic> peers = one->take_traffic();
    if (peers.empty()) {
      traffic_.reason = fmt::format("the {} backend does not tell all that it sends", job_.backend);
      return;
    }
    for (int peer = 0; peer < one->size(); ++peer) {
      const auto& [taken, sent] = peers[static_cast<std::size_t>(peer)];
      const auto [from, to] = device_numbers(*one, peer);
      links.push_back({from, to, taken.messages, taken.bytes});
      if (peer >= job_.cell.world_size) links.push_back({to, from, sent.messages, sent.bytes});
    }
  }
  traffic_.value = std::move(links);
}

// dp has its totals on the primary; the other replicas have none.
ops::LossTotals RankTrainer::take_totals() {
  ops::LossTotals sum;
  for (Replica* replica : strategy_->replicas()) sum += replica->take_totals();
  return sum;
}

TestTotals RankTrainer::evaluate() {
  strategy_->publish(/*to_evaluate=*/true);
  const std::vector<Replica*> replicas = strategy_->replicas();
  if (test_batches_.empty()) {
    for (Replica* replica : replicas) {
      test_batches_.push_back(evaluation_batch(job_, dataset_.test));
      test_batches_.back().allocate(replica->device());
      evaluated_.push_back(replica->device().make_event());
    }
  }
  std::vector<TestTotals> totals(replicas.size());
  const auto work = [&](std::size_t i) { totals[i] = evaluate_part(i); };
  if (devices_.group) {
    devices_.group->run(work);
  } else {
    work(0);
  }
  TestTotals sum;
  for (const TestTotals& part : totals) sum += part;
  return sum;
}

std::pair<std::int64_t, std::int64_t> RankTrainer::test_part(std::size_t i) const {
  const std::int64_t samples = dataset_.test.count, parts = config_.replicas;
  return {samples * plan_.shards[i] / parts, samples * (plan_.shards[i] + 1) / parts};
}

std::int64_t RankTrainer::test_samples() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; plan_.is_last && i < plan_.replicas.size(); ++i) {
    sum += test_part(i).second - test_part(i).first;
  }
  return sum;
}

TestTotals RankTrainer::evaluate_part(std::size_t i) {
  Replica& replica = *strategy_->replicas()[i];
  const data::Normalization normalization = normalization_of(job_);
  const std::int64_t batch = config_.per_device_batch;
  const auto [begin, end] = test_part(i);
  BatchMemory& memory = test_batches_[i];
  TestTotals totals;
  std::vector<std::int32_t> predicted;
  // Ranks that gather weights do so equally often.
  const std::int64_t most = ceil_div<std::int64_t>(dataset_.test.count, job_.cell.world_size);
  const std::int64_t last = replica.graph().plan().has_units() ? begin + most : end;
  for (std::int64_t first = begin; first < last; first += batch) {
    if (first >= end) {
      replica.graph().forward(replica.stream(), memory.device().images, ops::Mode::evaluation);
      continue;
    }
    const std::int64_t count = std::min(batch, end - first);
    data::assemble_range(dataset_.test, normalization, first, count, memory.host());
    if (i == 0) writer_.state(launch::RankState::evaluating);
    memory.upload(replica.stream(), memory);
    const StepInput input = memory.device();
    strategy_->evaluate(i, input, count);
    if (plan_.is_last && model_.predictions() > 1) {
      predicted.resize(static_cast<std::size_t>(count * model_.predictions()));
      replica.copy_predicted(predicted);
    }
    // The next batch is assembled in the same memory, so the host waits for this one.
    replica.stream().record(*evaluated_[i]);
    wait_->until(*evaluated_[i], "an evaluated batch");
    count_classes(memory.host(), predicted, totals.classes);
  }
  totals.loss = replica.take_evaluation();
  return totals;
}

void RankTrainer::count_classes(const data::BatchBuffer& batch,
                                std::span<const std::int32_t> predicted,
                                report::ClassCounts& counts) const {
  if (!predicted.empty()) counts.resize(static_cast<std::size_t>(model_.classes()));
  for (std::size_t k = 0; k < predicted.size(); ++k) {
    if (batch.labels[k] == model_.loss.ignore_index) continue;
    const auto label = static_cast<std::size_t>(batch.labels[k]);
    const auto guess = static_cast<std::size_t>(predicted[k]);
    ++counts[label].labels;
    ++counts[guess].predicted;
    if (label == guess) ++counts[label].hits;
  }
}

void RankTrainer::abort(const std::string& reason) {
  for (comm::Communicator* one : devices_.communicators()) one->abort(reason);
}

}  // namespace ddpbench::bench
