// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/strategy_harness.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

#include "kernels/nn/checkpoint.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/weights.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/comm/comm_module.h"
#include "parallel/replica.h"
#include "parallel/strategies.h"
#include "parallel/training_state.h"

namespace ddpbench::test {
namespace {

constexpr double kTimeoutS = 60;

struct Batch {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  float valid_weight = 1;  // of the global batch
};

// The part of a pass of the global batch of `step` that belongs to `shards`: sample j of shard s is
// sample s + j * replicas of the pass (data::ShardedSampler).
Batch draw(const nn::ModelSpec& model, const StrategyConfig& config, const std::vector<int>& shards,
           int step, int pass, const HarnessOptions& options) {
  const auto sample = static_cast<std::size_t>(ops::element_count(model.input_shape));
  const auto per_shard = static_cast<std::size_t>(config.per_device_batch);
  std::mt19937 random(static_cast<unsigned>(step) * 7919 + 1);
  std::uniform_real_distribution<float> pixel(-1, 1);
  std::uniform_int_distribution<std::int32_t> label(0,
                                                    static_cast<std::int32_t>(model.classes()) - 1);
  const auto predictions = static_cast<std::size_t>(model.predictions());
  const std::size_t pass_samples = per_shard * static_cast<std::size_t>(config.replicas);
  const std::size_t samples = pass_samples * static_cast<std::size_t>(config.accumulation_steps);
  Batch all;
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t k = 0; k < sample; ++k) all.images.push_back(pixel(random));
    for (std::size_t k = 0; k < predictions; ++k) all.labels.push_back(label(random));
    if (model.loss.ignore_index == ops::kIgnoresNothing) continue;
    const bool ignores = step == options.all_ignored_in;
    for (std::size_t k = 0; k < predictions; ++k) {
      if (ignores || random() % samples > i) {
        all.labels[i * predictions + k] = model.loss.ignore_index;
      }
    }
  }
  Batch part;
  const auto ignored = std::ranges::count(all.labels, model.loss.ignore_index);
  const auto labels = static_cast<float>(all.labels.size());
  const float valid = labels - static_cast<float>(ignored);
  part.valid_weight = valid > 0 ? labels / valid : 0;
  for (const int shard : shards) {
    for (std::size_t j = 0; j < per_shard; ++j) {
      const auto i = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(pass) * pass_samples +
                                                 j * static_cast<std::size_t>(config.replicas)) +
                     shard;
      const auto first = all.images.begin() + i * static_cast<std::ptrdiff_t>(sample);
      part.images.insert(part.images.end(), first, first + static_cast<std::ptrdiff_t>(sample));
      const auto label_at = all.labels.begin() + i * static_cast<std::ptrdiff_t>(predictions);
      part.labels.insert(part.labels.end(), label_at,
                         label_at + static_cast<std::ptrdiff_t>(predictions));
    }
  }
  return part;
}

// One process of the strategy: its devices, communicators and strategy object.
class Process {
 public:
  Process(const nn::ModelSpec& model, const StrategyConfig& config, const RankPlan& plan,
          comm::Communicator* world, comm::Communicator* statistics, comm::Communicator* alike,
          const HarnessOptions& options)
      : model_(model), config_(config), plan_(plan), options_(options) {
    const std::size_t count = std::max<std::size_t>(plan.replicas.size(), 1);
    std::vector<Device*> devices;
    for (std::size_t i = 0; i < count; ++i) {
      devices_.push_back(make_cpu_device({.index = static_cast<int>(i), .cores = {}}));
      backends_.push_back(ops::make_onednn_backend(*devices_.back()));
      devices.push_back(devices_.back().get());
      context_.backends.push_back(backends_.back().get());
    }
    if (statistics != nullptr) context_.statistics.push_back(statistics);
    if (count > 1) {
      group_ = make_thread_replica_group(devices);
      local_ = comm::make_thread_shm(static_cast<int>(count),
                                     {.timeout_s = kTimeoutS, .thread_cores = {}});
      for (auto& local : local_) context_.local.push_back(local.get());
      statistics_ = comm::make_thread_shm(static_cast<int>(count),
                                          {.timeout_s = kTimeoutS, .thread_cores = {}});
      for (auto& one : statistics_) context_.statistics.push_back(one.get());
    } else {
      devices[0]->bind_calling_thread();
    }
    context_.model = &model;
    context_.devices = devices;
    context_.world = world;
    context_.alike = alike;
    context_.group = group_.get();
    context_.further_observers = options.further_observers;
    context_.observer = world == nullptr || world->rank() == 0 ? options.observer : nullptr;
    context_.initialize = [this](nn::Graph& graph) {
      nn::initialize_parameters(graph, options_.seed);
      if (options_.resumed == nullptr) return;
      const auto weights = static_cast<std::ptrdiff_t>(nn::checkpoint_tensors(model_).size());
      nn::import_checkpoint(
          graph,
          nn::tensors_of(graph.model(), model_,
                         {options_.resumed->begin(), options_.resumed->begin() + weights}),
          "a save");
    };
    if (options.probed) {
      context_.probe = {options.probe_factor, [this] { options_.probed(graph()); }};
    }
    if (options.slice_added) context_.slice_added = [this] { options_.slice_added(graph()); };
  }

  void run(HarnessResult& result, std::mutex& mutex) {
    run_role(result, mutex);
    const std::lock_guard lock(mutex);
    add_traffic(context_.world, result.taken);
    for (comm::Communicator* local : context_.local) add_traffic(local, result.taken);
    for (comm::Communicator* one : context_.statistics) add_traffic(one, result.taken);
  }

 private:
  const nn::Graph& graph() { return strategy_->replicas()[0]->graph(); }

  static void add_traffic(comm::Communicator* peers, std::vector<comm::Traffic>& taken) {
    if (peers == nullptr) return;
    comm::Traffic& sum = taken.at(static_cast<std::size_t>(peers->rank()));
    for (const comm::PeerTraffic& peer : peers->take_traffic()) {
      sum.messages += peer.taken.messages;
      sum.bytes += peer.taken.bytes;
    }
  }

  void run_role(HarnessResult& result, std::mutex& mutex) {
    strategy_ =
        options_.row != nullptr ? make_replicated(config_, *options_.row) : make_strategy(config_);
    strategy_->setup(context_);
    if (plan_.role == Role::server) return static_cast<void>(strategy_->serve());
    const auto start = nn::flat_state(nn::export_state(strategy_->replicas()[0]->graph()));
    for (int round = 0; round < (options_.reset_in_between ? 2 : 1); ++round) {
      if (round > 0) strategy_->reset();
      if (options_.resumed != nullptr) {
        scatter_state(*strategy_, context_.world, *options_.resumed, options_.resumed_at);
        save(options_.resumed_at);
      }
      for (int at = options_.resumed_at; at < options_.steps; ++at) {
        const int step = options_.first_step + at;
        const bool ignores = model_.loss.ignore_index != ops::kIgnoresNothing;
        Batch batch;
        strategy_->step([&](int pass) -> StepInput {
          batch = draw(model_, config_, plan_.shards, step, pass, options_);
          const bool last = plan_.shards.back() == config_.replicas - 1;
          if (step == options_.overflow_in && last) batch.images.back() = 3e37F;
          return {batch.images.data(), batch.labels.data(),
                  ignores ? &batch.valid_weight : nullptr};
        });
        if (context_.observer != nullptr) strategy_->report(*context_.observer);
        save(step + 1);
        if (options_.factor != 1) scale_parameters();
        if (options_.restore_state && at + 1 < options_.steps) {
          const int graphs = restore_state(start);
          const std::lock_guard lock(mutex);
          if (at == 0) result.assigned += graphs;
        }
      }
    }
    // Before gradients are fetched, which verification alone does.
    std::vector<std::size_t> peaks;
    for (const auto& device : devices_) peaks.push_back(device->memory().total_peak_bytes);
    const auto updated = strategy_->updated_replicas();
    for (std::size_t i = 0; i < updated.size(); ++i) {
      auto gradients = nn::export_gradients(updated[i]->graph(), strategy_->fetch_gradients(i));
      const std::lock_guard lock(mutex);
      result.gradients[static_cast<std::size_t>(plan_.replicas[i])] = std::move(gradients);
    }
    const auto replicas = strategy_->replicas();
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      auto state = nn::export_state(replicas[i]->graph());
      const std::lock_guard lock(mutex);
      result.state[static_cast<std::size_t>(plan_.replicas[i])] = std::move(state);
    }
    strategy_->publish();
    strategy_->finish();
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      const auto index = static_cast<std::size_t>(plan_.replicas[i]);
      result.weights[index] = nn::export_weights(replicas[i]->graph());
      result.peak_bytes[index] = peaks[i];
      const ops::LossTotals totals = replicas[i]->take_totals();
      result.loss_sum += totals.loss_sum;
      result.counted += totals.counted;
    }
  }

  void save(int steps) {
    if (options_.saves == nullptr || !options_.saves->contains(steps)) return;
    std::vector<nn::NamedTensor> tensors = gather_state(*strategy_, context_.world);
    if (!tensors.empty()) options_.saves->at(steps) = std::move(tensors);
  }

  // Returns the number of graphs that keep theirs.
  int restore_state(const std::vector<double>& start) {
    int graphs = 0;
    strategy_->assign([&](nn::Graph& graph) {
      nn::import_state_values(graph, start);
      ++graphs;
    });
    return graphs;
  }

  void scale_parameters() {
    strategy_->fetch_gradients(0);  // as verification, after which all weights can be read
    std::vector<float> values;
    for (const auto& tensor : nn::export_weights(strategy_->updated_replicas()[0]->graph())) {
      for (const float value : tensor.values) values.push_back(value * options_.factor);
    }
    strategy_->assign([&](nn::Graph& graph) { nn::import_values(graph, values); });
  }

  const nn::ModelSpec& model_;
  const StrategyConfig& config_;
  const RankPlan& plan_;
  const HarnessOptions& options_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<ops::OpBackend>> backends_;
  std::unique_ptr<ReplicaGroup> group_;
  std::vector<std::unique_ptr<comm::Communicator>> local_, statistics_;
  StrategyContext context_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace

nn::ModelSpec small_model() {
  return nn::parse_model(R"({
    "name": "small", "input": [1, 10, 9],
    "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 5, "kernel": 3, "padding": 1},
      {"name": "relu1", "type": "relu"},
      {"name": "pool1", "type": "max_pool2d", "kernel": 2},
      {"name": "conv2", "type": "conv2d", "out_channels": 17, "kernel": 3},
      {"name": "relu2", "type": "relu"},
      {"name": "fc1", "type": "linear", "out_features": 33},
      {"name": "relu3", "type": "relu"},
      {"name": "fc2", "type": "linear", "out_features": 7}]})",
                         "small model");
}

nn::ModelSpec normalized_model() {
  return nn::parse_model(R"({
    "name": "normalized", "input": [1, 10, 9],
    "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 5, "kernel": 3, "padding": 1, "bias": false},
      {"name": "norm1", "type": "batch_norm2d"},
      {"name": "relu1", "type": "relu"},
      {"name": "conv2", "type": "conv2d", "out_channels": 17, "kernel": 3, "bias": false},
      {"name": "norm2", "type": "batch_norm2d"},
      {"name": "relu2", "type": "relu"},
      {"name": "pool1", "type": "max_pool2d", "kernel": 2},
      {"name": "fc1", "type": "linear", "out_features": 7}]})",
                         "normalized model");
}

nn::ModelSpec smoothing_model() {
  nn::ModelSpec model = small_model();
  model.name = "smoothing";
  model.loss = {.label_smoothing = 0.1, .ignore_index = 2};
  return model;
}

nn::ModelSpec auxiliary_model() {
  return nn::parse_model(R"({
    "name": "auxiliary", "input": [1, 10, 9],
    "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 5, "kernel": 3, "padding": 1},
      {"name": "relu1", "type": "relu"},
      {"name": "early", "type": "linear", "out_features": 7},
      {"name": "conv2", "type": "conv2d", "inputs": ["relu1"], "out_channels": 17, "kernel": 3},
      {"name": "relu2", "type": "relu"},
      {"name": "fc", "type": "linear", "out_features": 7}],
    "loss": {"ignore_index": 2},
    "auxiliary": [{"output": "early", "weight": 0.4, "loss": {"label_smoothing": 0.1}}]})",
                         "auxiliary model");
}

nn::ModelSpec map_model() {
  return nn::parse_model(R"({
    "name": "map", "input": [2, 8, 7],
    "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 6, "kernel": 3, "padding": 1},
      {"name": "relu1", "type": "relu"},
      {"name": "conv2", "type": "conv2d", "out_channels": 4, "kernel": 1}],
    "loss": {"ignore_index": 255}})",
                         "map model");
}

nn::ModelSpec dropping_model() {
  return nn::parse_model(R"({
    "name": "dropping", "input": [1, 10, 9],
    "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 5, "kernel": 3, "padding": 1},
      {"name": "relu1", "type": "relu"},
      {"name": "drop1", "type": "dropout", "p": 0.2},
      {"name": "fc1", "type": "linear", "out_features": 33},
      {"name": "relu2", "type": "relu"},
      {"name": "drop2", "type": "dropout"},
      {"name": "fc2", "type": "linear", "out_features": 7}]})",
                         "dropping model");
}

HarnessResult run_strategy(const nn::ModelSpec& model, const StrategyConfig& config,
                           const HarnessOptions& options) {
  const std::vector<RankPlan> plans =
      options.row != nullptr ? plan_ranks(config, *options.row) : plan_strategy(config).ranks;
  const auto ranks = plans.size();
  HarnessResult result;
  const int devices = config.replicas * config.stages;
  result.weights.resize(static_cast<std::size_t>(devices));
  result.state.resize(static_cast<std::size_t>(devices));
  result.gradients.resize(static_cast<std::size_t>(devices));
  result.peak_bytes.resize(static_cast<std::size_t>(devices));
  result.taken.resize(static_cast<std::size_t>(devices + config.servers));
  std::vector<std::vector<std::unique_ptr<comm::Communicator>>> alike;  // [stage][replica]
  for (int stage = 0; config.stages > 1 && config.replicas > 1 && stage < config.stages; ++stage) {
    alike.push_back(
        comm::make_thread_shm(config.replicas, {.timeout_s = kTimeoutS, .thread_cores = {}}));
  }
  std::vector<std::unique_ptr<comm::Communicator>> worlds, statistics;
  if (ranks > 1) {
    worlds = comm::make_thread_shm(
        static_cast<int>(ranks),
        {.timeout_s = kTimeoutS, .thread_cores = {}, .all_reduce = options.all_reduce});
    statistics =
        comm::make_thread_shm(config.replicas, {.timeout_s = kTimeoutS, .thread_cores = {}});
  }
  std::mutex mutex;
  std::exception_ptr first_error;
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < ranks; ++p) {
    threads.emplace_back([&, p] {
      comm::Communicator* world = worlds.empty() ? nullptr : worlds[p].get();
      comm::Communicator* trainers = p < statistics.size() ? statistics[p].get() : nullptr;
      comm::Communicator* stage = alike.empty()
                                      ? nullptr
                                      : alike[static_cast<std::size_t>(plans[p].stage)]
                                             [static_cast<std::size_t>(plans[p].shards[0])]
                                                 .get();
      try {
        Process(model, config, plans[p], world, trainers, stage, options).run(result, mutex);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first_error) first_error = std::current_exception();
        }
        if (world != nullptr) world->abort(error.what());
        if (trainers != nullptr) trainers->abort(error.what());
        if (stage != nullptr) stage->abort(error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
  return result;
}

std::vector<nn::NamedTensor> joined(const std::vector<std::vector<nn::NamedTensor>>& of_ranks,
                                    int first, int parts) {
  std::vector<nn::NamedTensor> all;
  for (int rank = first; rank < first + parts; ++rank) {
    const auto& part = of_ranks.at(static_cast<std::size_t>(rank));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

float HarnessResult::largest_gradient() const {
  float largest = 0;
  for (const auto& replica : gradients) {
    for (const nn::NamedTensor& tensor : replica) {
      for (const float value : tensor.values) {
        if (!std::isfinite(value)) return INFINITY;
        largest = std::max(largest, std::abs(value));
      }
    }
  }
  return largest;
}

double relative_error(const std::vector<nn::NamedTensor>& start,
                      const std::vector<nn::NamedTensor>& weights,
                      const std::vector<nn::NamedTensor>& reference) {
  double worst = 0;
  for (std::size_t t = 0; t < start.size(); ++t) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < start[t].values.size(); ++i) {
      const double expected = static_cast<double>(reference[t].values[i]) - start[t].values[i];
      const double actual = static_cast<double>(weights[t].values[i]) - start[t].values[i];
      difference += (actual - expected) * (actual - expected);
      norm += expected * expected;
    }
    worst = std::max(worst, std::sqrt(difference / norm));
  }
  return worst;
}

std::vector<nn::NamedTensor> starting_weights(const nn::ModelSpec& model, std::uint64_t seed) {
  const auto device = make_cpu_device({.cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  nn::Graph graph(model, *device, *backend, {.batch = 1, .micro_batch = {}});
  nn::initialize_parameters(graph, seed);
  return nn::export_weights(graph);
}

}  // namespace ddpbench::test
