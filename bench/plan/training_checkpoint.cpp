// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/training_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "kernels/nn/checkpoint.h"
#include "kernels/nn/weights.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kFormatKey = "ddpbench_checkpoint";
constexpr const char* kFormat = "1";
constexpr const char *kSteps = "steps", *kEpoch = "epoch", *kStepOfEpoch = "step_of_epoch";
constexpr const char* kSchedule = "lr_schedule";

// "sgd with momentum": what decides which slots there are.
std::string optimizer_words(const TrainingJob& job) {
  const ops::OptimizerOptions options = optimizer_of(job);
  const bool has_velocity = !options.is_adaptive() && ops::slot_count(options) > 0;
  return fmt::format("{}{}", to_string(options.kind), has_velocity ? " with momentum" : "");
}

// "lr=0.1, lr_schedule=step, ...": what the rate of a step follows.
std::string schedule_words(const TrainingJob& job) {
  const report::Run run = planned_run(job);
  std::vector<std::string> words;
  for (const auto& [name, value] : run.optimizer)
    if (name.starts_with("lr")) words.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : run.optimizer_choices)
    if (name.starts_with("lr")) words.push_back(name + '=' + value);
  return joined(words, ", ");
}

struct Fact {
  const char* key;
  const char* words;
  std::string value;
  std::string fix = "";  // beside the file's value, which {} stands for
};

// What a file and the run that goes on from it have in common.
std::vector<Fact> common_facts(const TrainingJob& job) {
  const std::string samples = std::to_string(job.dataset.train_samples);
  return {{"network", "the network", fmt::format("{} ({})", job.network.name, job.network.hash)},
          {"dataset", "the data set", fmt::format("{} of {} samples", job.dataset.name, samples)},
          {"optimizer", "the optimizer", optimizer_words(job)},
          {"global_batch", "the global batch", std::to_string(job.global_batch()),
           "; give --global-batch-size={}"},
          {"seed", "the seed", std::to_string(job.options.seed), "; give --seed={}"}};
}

template <typename Read>
auto with_origin(const Read& read) {
  try {
    return read();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("--resume-training: {}", error.what()));
  }
}

std::string value_of(const nn::Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

template <typename Number>
Number number_of(const nn::Metadata& metadata, const char* key, const std::string& path) {
  const auto number = number_in<Number>(value_of(metadata, key));
  if (number && *number >= 0) return *number;
  throw ConfigError(fmt::format("{}: its metadata has no {}", path, key));
}

void check_facts(const TrainingJob& job, const nn::Metadata& metadata, const std::string& path) {
  const std::string format = value_of(metadata, kFormatKey);
  if (format.empty()) {
    throw ConfigError(fmt::format(
        "{} has weights alone, and was not written by --checkpoint; --load-model starts from them",
        path));
  }
  if (format != kFormat) {
    throw ConfigError(
        fmt::format("{} is of format {}, and this program reads format {}", path, format, kFormat));
  }
  for (const Fact& fact : common_facts(job)) {
    const std::string saved = value_of(metadata, fact.key);
    // Whoever evaluates alone needs the weights alone.
    const bool concerns = job.options.epochs > 0 || fact.key == std::string_view("network");
    if (saved == fact.value || !concerns) continue;
    throw ConfigError(fmt::format("{}: {} was {}, and is {} now{}", path, fact.words, saved,
                                  fact.value, fmt::format(fmt::runtime(fact.fix), saved)));
  }
}

void check_position(const TrainingJob& job, const TrainingPosition& position,
                    const std::string& path) {
  const int epochs = job.options.epochs;
  if (epochs > 0 && position.epoch >= epochs) {
    throw ConfigError(fmt::format(
        "{} has been trained for {}, and --epochs={} is for all; give more, or 0 to evaluate it",
        path, counted(position.epoch, "epoch"), epochs));
  }
  if (epochs > 0 && position.step >= job.steps_per_epoch) {
    throw ConfigError(fmt::format("{} was saved after step {} of an epoch, and one has {} now",
                                  path, position.step, job.steps_per_epoch));
  }
}

// Takes what wraps all names off them, and brings the tensors of the network to the front. Returns
// their number.
template <typename Tensor>
std::ptrdiff_t sort_names(const nn::ModelSpec& model, std::vector<Tensor>& tensors,
                          const std::string& prefix) {
  std::set<std::string> names;
  for (const nn::TensorInfo& tensor : nn::checkpoint_tensors(model)) names.insert(tensor.name);
  for (Tensor& tensor : tensors) tensor.name.erase(0, prefix.size());
  const auto others = std::ranges::stable_partition(
      tensors, [&](const Tensor& tensor) { return names.contains(tensor.name); });
  return others.begin() - tensors.begin();
}

}  // namespace

nn::Metadata checkpoint_metadata(const TrainingJob& job, const TrainingPosition& position) {
  nn::Metadata metadata = {
      {kFormatKey, kFormat},
      {"version", version_text().substr(0, version_text().find('\n'))},
      {"strategy", run_name(job)},
      {kSteps, std::to_string(position.steps)},
      {kEpoch, std::to_string(position.epoch)},
      {kStepOfEpoch, std::to_string(position.step)},
      {"samples_of_epoch", std::to_string(position.step * job.global_batch())},
      {kSchedule, schedule_words(job)},
      {"learning_rate", fmt::format("{}", ops::learning_rate(optimizer_of(job), position.steps))}};
  for (const Fact& fact : common_facts(job)) metadata[fact.key] = fact.value;
  return metadata;
}

TrainingPosition resumed_position(const TrainingJob& job, const nn::ModelSpec& model) {
  const std::string& path = job.options.resume_training;
  if (path.empty()) return {};
  return with_origin([&] {
    const nn::Metadata metadata = nn::read_metadata(path);
    check_facts(job, metadata, path);
    std::vector<nn::TensorInfo> tensors = nn::read_tensor_infos(path);
    const auto count = sort_names(model, tensors, nn::wrapper_prefix(model, tensors));
    tensors.resize(static_cast<std::size_t>(count));
    nn::match_checkpoint(model, tensors, path);
    const TrainingPosition position{number_of<std::int64_t>(metadata, kSteps, path),
                                    number_of<int>(metadata, kEpoch, path),
                                    number_of<std::int64_t>(metadata, kStepOfEpoch, path)};
    check_position(job, position, path);
    return position;
  });
}

std::string other_schedule(const TrainingJob& job) {
  const std::string now = schedule_words(job);
  const std::string saved = value_of(nn::read_metadata(job.options.resume_training), kSchedule);
  if (saved.empty() || saved == now || job.options.epochs == 0) return "";
  return fmt::format("; its learning rate was {}, and is {} now", saved, now);
}

TrainingCheckpoint read_training_checkpoint(const TrainingJob& job, const nn::ModelSpec& model) {
  return with_origin([&] {
    std::vector<nn::NamedTensor> tensors = nn::read_safetensors(job.options.resume_training);
    nn::check_finite(tensors, job.options.resume_training);
    const auto count = sort_names(model, tensors, nn::wrapper_prefix(model, nn::infos_of(tensors)));
    TrainingCheckpoint checkpoint;
    checkpoint.others.assign(std::move_iterator(tensors.begin() + count),
                             std::move_iterator(tensors.end()));
    tensors.resize(static_cast<std::size_t>(count));
    checkpoint.weights = std::move(tensors);
    return checkpoint;
  });
}

bool replaces_checkpoint(const RunOptions& options) {
  std::error_code other;  // one of them is not there
  return options.force ||
         std::filesystem::equivalent(options.checkpoint, options.resume_training, other);
}

void check_checkpointing(const TrainingJob& job) {
  const RunOptions& options = job.options;
  if (options.checkpoint.empty() && options.resume_training.empty()) return;
  const StrategyConfig config = strategy_config(job);
  if (config.stages == 1 || config.replicas == 1 || !job.network.has_state ||
      config.broadcast_buffers)
    return;
  throw ConfigError(
      fmt::format("{}: --broadcast-buffers=off: what replicas of a pipeline beside the first have "
                  "for themselves is not saved",
                  options.checkpoint.empty() ? "--resume-training" : "--checkpoint"));
}

}  // namespace ddpbench::bench
