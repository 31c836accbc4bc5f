// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/verification_study/study_case.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/options/option_injection.h"

namespace ddpbench::bench {
namespace {

using Json = nlohmann::ordered_json;

// Draws that are equal everywhere, unlike those of the standard library's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // in [0, 1)
  bool chance(double probability) { return uniform() < probability; }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(uniform() * static_cast<double>(most - least + 1));
  }
  // Evenly over orders of magnitude.
  double magnitude(double least, double most) {
    return least * std::exp(uniform() * std::log(most / least));
  }
  template <typename T, std::size_t n>
  T one_of(const std::array<T, n>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(n) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

// Builds the list of layers, and keeps track of the shape behind them. `further` and `few`: draws
// of what was added to the study later, so that the rest stays as it was.
class Network {
 public:
  Network(Random& random, Random& further, Random& few, const data::DatasetInfo& info)
      : random_(random),
        further_(further),
        normalizes_(further.chance(0.35)),
        normalizes_few_(few.chance(0.3)),
        channels_(info.channels),
        height_(info.height),
        width_(info.width) {
    json_ = {{"name", "drawn"}, {"input", {channels_, height_, width_}}, {"layers", Json::array()}};
    const std::int64_t convolutions = random.between(0, 2);
    for (std::int64_t i = 0; i < convolutions; ++i) add_convolution();
    const std::int64_t hidden = random.between(0, 2);
    for (std::int64_t i = 0; i < hidden; ++i) add_linear(random.between(1, 40), true);
    add_linear(info.classes, false);
  }
  std::string text() const { return json_.dump(1); }
  bool has_batch_norm() const { return has_batch_norm_; }
  // Whether batches of few samples are wanted, for batch norms of few values a channel. One sample
  // is too few.
  bool normalizes_few() const { return has_batch_norm_ && normalizes_few_; }

 private:
  void add(const char* type, const Json& more = Json::object()) {
    Json layer = {{"name", fmt::format("{}{}", type, ++count_)}, {"type", type}};
    layer.update(more);
    json_["layers"].push_back(layer);
  }

  std::string last() const { return json_["layers"].back()["name"]; }

  void add_convolution() {
    const std::int64_t kernel = random_.between(1, std::min<std::int64_t>({3, height_, width_}));
    const std::int64_t padding = kernel == 3 && random_.chance(0.5) ? 1 : 0;
    channels_ = random_.between(1, 8);
    height_ += 2 * padding - kernel + 1;
    width_ += 2 * padding - kernel + 1;
    add("conv2d", {{"out_channels", channels_},
                   {"kernel", kernel},
                   {"padding", padding},
                   {"bias", random_.chance(0.85)}});
    add_batch_norm();
    if (random_.chance(0.2)) add_residual();
    if (random_.chance(0.8)) add("relu");
    if (std::min(height_, width_) >= 4 && random_.chance(0.5)) {
      add(further_.chance(0.3) ? "avg_pool2d" : "max_pool2d", {{"kernel", 2}});
      height_ /= 2;
      width_ /= 2;
      if (further_.chance(0.2)) add_batch_norm();
    }
  }

  // A channel must have two values.
  void add_batch_norm() {
    const bool has_two = height_ * width_ >= 2 || normalizes_few_;
    if (!normalizes_ || !has_two || further_.chance(0.2)) return;
    add("batch_norm2d", {{"affine", further_.chance(0.8)},
                         {"momentum", further_.one_of(std::array{0.1, 0.1, 0.01, 0.9})}});
    has_batch_norm_ = true;
  }

  void add_residual() {
    const std::string from = last();
    add("conv2d", {{"out_channels", channels_}, {"kernel", 3}, {"padding", 1}});
    add_batch_norm();
    add("add", {{"inputs", {from, last()}}});
  }

  void add_linear(std::int64_t features, bool hidden) {
    add("linear", {{"out_features", features}, {"bias", random_.chance(0.9)}});
    if (hidden && random_.chance(0.8)) add("relu");
  }

  Random &random_, &further_;
  const bool normalizes_, normalizes_few_;
  bool has_batch_norm_ = false;
  std::int64_t channels_, height_, width_;
  int count_ = 0;
  Json json_;
};

void draw_dataset(Random& random, StudyCase& drawn) {
  drawn.dataset = {.name = "drawn",
                   .source = "synthetic",
                   .directory = "",
                   .train_samples = random.between(20, 200),
                   .test_samples = 4,
                   .channels = random.between(1, 3),
                   .height = random.between(3, 12),
                   .width = random.between(3, 12),
                   .classes = static_cast<int>(random.between(2, 10))};
  drawn.decoded.resize(drawn.dataset.decoded_bytes());
  const auto parts = data::decoded_parts(drawn.dataset, drawn.decoded);
  const double blank = random.one_of(std::array{0.0, 0.5, 0.95});  // share of pixels
  for (const auto images : {parts.train.images, parts.test.images}) {
    for (std::uint8_t& pixel : images) {
      pixel = random.chance(blank) ? 0 : static_cast<std::uint8_t>(random.between(0, 255));
    }
  }
  const std::int64_t labels = random.chance(0.1) ? 1 : drawn.dataset.classes;
  for (const auto of : {parts.train.labels, parts.test.labels}) {
    for (std::uint16_t& label : of) {
      label = static_cast<std::uint16_t>(random.between(0, labels - 1));
    }
  }
}

void draw_training(Random& random, Options& options) {
  options.lr = random.magnitude(1e-5, 0.5);
  options.momentum = random.one_of(std::array{0.0, 0.5, 0.9, 0.9, 0.99});
  options.weight_decay = random.one_of(std::array{0.0, 0.0, 1e-4, 1e-2});
  options.batch_sizes = {random.between(1, 16)};
  options.last_batch = random.chance(0.7) ? "pad" : "drop";
  options.seed = static_cast<std::uint64_t>(random.between(1, 1 << 30));
  options.dataset_mean = PerChannel{{0.1307}};
  options.dataset_std = PerChannel{{0.3081}};
  if (random.chance(0.3)) {
    options.dataset_mean = PerChannel{{0.0}};
    options.dataset_std = PerChannel{{random.one_of(std::array{1.0, 0.05})}};
  }
  const double length = random.uniform();
  options.verify_steps = static_cast<int>(length < 0.6    ? random.between(1, 5)
                                          : length < 0.85 ? random.between(6, 59)
                                                          : random.between(60, 300));
}

// From draws of its own: the rest of a case does not depend on it.
void draw_optimizer(std::uint64_t seed, Options& options) {
  Random random(seed * 2 + 1);
  options.optimizer = random.one_of(std::array<std::string, 4>{"sgd", "sgd", "adam", "adamw"});
  options.nesterov = random.chance(0.3) && options.momentum > 0;
  options.beta1 = random.one_of(std::array{0.9, 0.9, 0.5, 0.0});
  options.beta2 = random.one_of(std::array{0.999, 0.99, 0.9});
  options.epsilon = random.one_of(std::array{1e-8, 1e-8, 1e-4});
  options.lr_schedule =
      random.one_of(std::array<std::string, 4>{"constant", "constant", "step", "cosine"});
  options.lr_step_size = random.between(1, 10);
  options.lr_gamma = 0.5;
  options.lr_cosine_steps = random.between(1, 40);
  options.lr_warmup_steps = random.chance(0.3) ? static_cast<int>(random.between(1, 5)) : 0;
}

void draw_strategy(Random& random, std::int64_t fewest_devices, Options& options) {
  options.strategies = {random.one_of(std::array<std::string, 3>{"dp", "ddp", "ps"})};
  options.gpus = {static_cast<int>(random.between(fewest_devices, 4))};
  options.server_counts = {static_cast<int>(random.between(1, 3))};
  options.ps_updates = {random.chance(0.5) ? "server" : "worker"};
  options.overlaps = {random.chance(0.5)};
  options.first_buckets_mb = {random.magnitude(1e-5, 1)};
  options.bucket_caps_mb = {random.magnitude(1e-5, 1)};
  options.all_reduces = {random.chance(0.5) ? "ring" : "direct"};
  if (options.gpus[0] == 1) options.all_reduces = {"auto"};
}

StudyCase draw(std::uint64_t seed, std::int64_t fewest_devices) {
  Random random(seed), further(seed * 3 + 2), few(seed * 5 + 4);
  StudyCase drawn;
  drawn.seed = seed;
  draw_dataset(random, drawn);
  const Network network(random, further, few, drawn.dataset);
  drawn.model = network.text();
  Options& options = drawn.options;
  options.device = "cpu";
  options.server_device = "cpu";
  options.precision = "fp32";
  options.warmup_steps = 0;
  options.timeout_s = 120;
  draw_training(random, options);
  draw_optimizer(seed, options);
  draw_strategy(random, fewest_devices, options);
  options.sync_batch_norm = network.has_batch_norm() && options.gpus[0] > 1 && further.chance(0.5);
  options.broadcast_buffers = further.chance(0.5);
  if (network.normalizes_few()) {
    options.batch_sizes = {few.chance(0.7) ? few.between(2, 4)
                                           : std::max<std::int64_t>(2, options.batch_sizes[0])};
  }
  // A step must fit into the data set also with --last-batch=drop.
  while (options.batch_sizes[0] * options.gpus[0] > drawn.dataset.train_samples) {
    options.batch_sizes[0] /= 2;
  }
  return drawn;
}

}  // namespace

std::string StudyCase::describe() const {
  const std::string fault =
      options.injections.empty() ? "" : " --inject=" + options.injections[0].text;
  return fmt::format(
      "seed {}: --strategy={} --gpus={} --servers={} --ps-update={} --all-reduce={} "
      "--batch-size={} --optimizer={}{} --lr={:.3g} --momentum={} --beta1={} --beta2={} "
      "--epsilon={} --weight-decay={} --lr-schedule={} --lr-step-size={} --lr-gamma={} "
      "--lr-cosine-steps={} --lr-warmup-steps={} --sync-batch-norm={} --broadcast-buffers={} "
      "--verify-steps={}{}",
      seed, options.strategies[0], options.gpus[0], options.server_counts[0], options.ps_updates[0],
      options.all_reduces[0], options.batch_sizes[0], options.optimizer,
      options.nesterov ? " --nesterov" : "", options.lr, options.momentum, options.beta1,
      options.beta2, options.epsilon, options.weight_decay, options.lr_schedule,
      *options.lr_step_size, options.lr_gamma, *options.lr_cosine_steps, options.lr_warmup_steps,
      options.sync_batch_norm ? "on" : "off", options.broadcast_buffers ? "on" : "off",
      options.verify_steps, fault);
}

StudyCase draw_case(std::uint64_t seed) { return draw(seed, 1); }

StudyCase draw_faulty_case(std::uint64_t seed) {
  StudyCase drawn = draw(seed, 2);
  Random random(~seed);
  Options& options = drawn.options;
  const std::int64_t buckets = options.strategies[0] == "ps" ? options.server_counts[0] : 1;
  const std::array<std::string, 3> faults = {
      "sum", fmt::format("missing_bucket:bucket={}", random.between(0, buckets - 1)),
      fmt::format("stale:rank={},step={}", random.between(0, options.gpus[0] - 1),
                  random.between(0, options.verify_steps - 1))};
  options.injections = {parse_injection(random.one_of(faults), "drawn")};
  return drawn;
}

}  // namespace ddpbench::bench
