// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Training steps of the published networks against torchvision's, which tests/nn/steps has
// recorded: loss, logits and every gradient to 1e-4 of its norm. record_steps.py made the files and
// says what is in them, and why rounding stays far below that tolerance.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/random.h"
#include "kernels/nn/weights.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

constexpr double kTolerance = 1e-4;
constexpr std::int64_t kBatch = 2;
constexpr std::int32_t kLabels[kBatch] = {3, 7};
constexpr int kSums = 3;

using Numbers = std::vector<double>;

std::map<std::string, Numbers> recorded_step(const std::string& network) {
  std::ifstream file(fmt::format("{}/tests/nn/steps/{}.txt", DDPBENCH_SOURCE_DIR, network));
  std::map<std::string, Numbers> step;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double number; words >> number;) step[name].push_back(number);
  }
  return step;
}

// The network of configs/models with smaller images and features, which drops nothing.
ModelSpec reduced_network(const std::string& name, std::int64_t side) {
  std::string text = read_file(model_path(name), {.what = "model ", .most_bytes = 1 << 20});
  const auto replace = [&text](const std::string& from, const std::string& to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
    }
  };
  replace("[3, 224, 224]", fmt::format("[3, {0}, {0}]", side));
  replace(R"("out_features": 4096)", R"("out_features": 96)");
  replace(R"("p": 0.5)", R"("p": 0)");
  return parse_model(text, name + ".json");
}

// `settle` of record_steps.py.
void settle_batch_norm(std::vector<NamedTensor>& tensors) {
  std::map<std::string, NamedTensor*> by_name;
  for (NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  const bool bottlenecks = std::ranges::any_of(
      tensors, [](const NamedTensor& tensor) { return tensor.name.ends_with(".bn3.weight"); });
  const std::string last = bottlenecks ? ".bn3" : ".bn2";
  for (const auto& [name, tensor] : by_name) {
    if (!name.ends_with(".running_mean")) continue;
    const std::string layer = name.substr(0, name.rfind('.'));
    const float weight = layer.ends_with(last) ? 0.2F : 1.0F;
    std::ranges::fill(by_name.at(layer + ".weight")->values, weight);
    std::vector<float>& biases = by_name.at(layer + ".bias")->values;
    for (std::size_t c = 0; c < biases.size(); ++c) {
      biases[c] = (c % 4 == 3 ? -3.0F : 3.0F) * weight;
    }
  }
}

void fill_images(std::span<float> images, std::uint64_t seed) {
  for (std::size_t k = 0; k < images.size(); ++k) {
    const std::uint64_t bits = split_mix((seed << 32) + k);
    images[k] = static_cast<float>(bits >> 40) * 0x1p-23F - 1.0F;
  }
}

// Norm and sums, as the files have them.
Numbers summary(std::span<const float> values) {
  Numbers found(1 + kSums);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::uint64_t bits = split_mix(k);
    const double value = static_cast<double>(values[k]);
    found[0] += value * value;
    for (std::size_t sum = 0; sum < kSums; ++sum)
      found[1 + sum] += (bits >> sum & 1) ? -value : value;
  }
  found[0] = std::sqrt(found[0]);
  return found;
}

// A step of the recorded batch from settled start values: {name: summary}, of the loss its value.
std::map<std::string, Numbers> take_step(const ModelSpec& model, std::uint64_t seed) {
  TestGraph test(model, onednn, {.batch = kBatch});
  Graph& graph = test.graph();
  std::vector<NamedTensor> start = export_checkpoint(graph);
  settle_batch_norm(start);
  import_checkpoint(graph, start, "settled start values");
  const Buffer images = test.device().allocate(
      static_cast<std::size_t>(kBatch * ops::element_count(model.input_shape)) * sizeof(float),
      MemoryCategory::input);
  fill_images(images.view().as<float>(), seed);
  const Buffer totals = test.device().allocate(sizeof(ops::LossTotals), MemoryCategory::optimizer);
  auto* const sums = reinterpret_cast<ops::LossTotals*>(totals.data());
  *sums = {};
  graph.forward(test.stream(), images.view().as<float>().data());
  test.backend().loss(test.stream(), {.batch = kBatch, .classes = model.classes()},
                      {.logits = graph.output(),
                       .labels = kLabels,
                       .samples = kBatch,
                       .grad_scale = 1.0F / kBatch,
                       .grad_logits = graph.output_gradient(),
                       .totals = sums});
  graph.backward(test.stream());
  test.stream().synchronize();
  std::map<std::string, Numbers> step;
  step["loss"] = {sums->loss_sum / kBatch};
  step["logits"] = summary({graph.output(), static_cast<std::size_t>(kBatch * model.classes())});
  for (const NamedTensor& tensor : export_gradients(graph)) {
    step[tensor.name] = summary(tensor.values);
  }
  return step;
}

// Gradients that nearly vanish, of biases that batch norm behind them takes away again, are sums of
// large terms with their rounding. So no tensor counts for less than half the median norm.
double least_size(const std::map<std::string, Numbers>& step) {
  std::vector<double> norms;
  for (const auto& [name, numbers] : step) {
    if (name != "loss") norms.push_back(numbers[0]);
  }
  std::ranges::sort(norms);
  return 0.5 * norms[norms.size() / 2];
}

class RecordedStep : public testing::TestWithParam<const char*> {};

TEST_P(RecordedStep, IsTorchvisions) {
  std::map<std::string, Numbers> recorded = recorded_step(GetParam());
  ASSERT_TRUE(recorded.contains("side") && recorded.contains("seed")) << GetParam();
  const auto side = static_cast<std::int64_t>(recorded.extract("side").mapped().at(0));
  const auto seed = static_cast<std::uint64_t>(recorded.extract("seed").mapped().at(0));
  const std::map<std::string, Numbers> found = take_step(reduced_network(GetParam(), side), seed);
  ASSERT_EQ(found.size(), recorded.size());
  const double least = least_size(recorded);
  double largest = 0;
  for (const auto& [name, numbers] : recorded) {
    ASSERT_TRUE(found.contains(name)) << name;
    const Numbers& ours = found.at(name);
    ASSERT_EQ(ours.size(), numbers.size()) << name;
    const double size = std::max(std::abs(numbers[0]), least);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double error = std::abs(ours[i] - numbers[i]) / size;
      largest = std::max(largest, error);
      EXPECT_LT(error, kTolerance)
          << name << ", number " << i << ": " << ours[i] << ", recorded " << numbers[i];
    }
  }
  RecordProperty("largest_error", fmt::format("{:.2g}", largest));
}

INSTANTIATE_TEST_SUITE_P(Networks, RecordedStep,
                         testing::Values("alexnet", "resnet18", "resnet20", "resnet34", "resnet50",
                                         "resnet101", "resnet152", "resnext50_32x4d", "vgg16"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace ddpbench::nn
