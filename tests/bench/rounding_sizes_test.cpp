// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/weights.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::bench {
namespace {

constexpr double kError = 1e-4;
constexpr ProbeOptions kProbe = {.loss_factor = 0.5, .allowance = 30};

// Two linear layers, of 3 x 4 weights with 3 biases and 2 x 3 with 2, whose gradients tests set.
class GradientSizesTest : public testing::Test {
 protected:
  // Sets all gradients to `value`, and those of `tensor` to `special`.
  void set_gradients(float value, const std::string& tensor = "", float special = 0) {
    const auto& parameters = graph_.plan().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto count = static_cast<std::size_t>(ops::element_count(parameters[i].shape));
      const float each = parameters[i].name == tensor ? special : value;
      graph_.import_parameter(i, std::vector<float>(count, each), graph_.gradients().view());
    }
  }

  // A step of one slice. Returns the sizes, relative to those of gradients of 1.
  static std::map<std::string, double> finish_step(GradientSizes& sizes) {
    sizes.add_slice();
    const auto [gradients, found] = sizes.finish_step();
    std::map<std::string, double> by_name;
    for (std::size_t t = 0; t < found.size(); ++t) {
      const auto count = static_cast<double>(gradients[t].values.size());
      by_name[gradients[t].name] = found[t] / std::sqrt(count);
    }
    return by_name;
  }

  std::unique_ptr<Device> device_ = make_cpu_device({.cores = {}});
  std::unique_ptr<ops::OpBackend> backend_ = ops::make_onednn_backend(*device_);
  nn::Graph graph_{nn::parse_model(R"({"name": "two", "input": [1, 2, 2], "layers": [
      {"name": "one", "type": "linear", "out_features": 3},
      {"name": "two", "type": "linear", "out_features": 2}]})",
                                   "two"),
                   *device_,
                   *backend_,
                   {.batch = 1, .micro_batch = {}}};
};

TEST_F(GradientSizesTest, GrowWithTheErrorsThatAProbeMeasures) {
  GradientSizes sizes(graph_, kError, kProbe);
  constexpr float kDifference = 0x1p-10F;
  set_gradients(0.5F, "one.weight", 0.5F * (1 + kDifference));
  sizes.add_probe();
  set_gradients(1);
  const auto found = finish_step(sizes);
  const double widened = 30 * kDifference / kError;
  EXPECT_NEAR(found.at("one.weight"), widened, 1e-6 * widened);
  // The layer's other tensor counts as if its elements were as wrong as the layer's on the whole.
  EXPECT_NEAR(found.at("one.bias"), widened * std::sqrt(12.0 / 15), 1e-6 * widened);
  EXPECT_NEAR(found.at("two.weight"), 1, 1e-6);
  EXPECT_NEAR(found.at("two.bias"), 1, 1e-6);
}

TEST_F(GradientSizesTest, StayWhereGradientsDoNotCancel) {
  GradientSizes sizes(graph_, kError, kProbe);
  set_gradients(0.5F * (1 + 0x1p-20F));
  sizes.add_probe();
  set_gradients(1);
  for (const auto& [name, size] : finish_step(sizes)) EXPECT_NEAR(size, 1, 1e-6) << name;
}

TEST_F(GradientSizesTest, ForgetTheProbeAfterItsStep) {
  GradientSizes sizes(graph_, kError, kProbe);
  set_gradients(8);
  sizes.add_probe();
  set_gradients(1);
  EXPECT_GT(finish_step(sizes).at("one.weight"), 100);
  set_gradients(1);
  EXPECT_NEAR(finish_step(sizes).at("one.weight"), 1, 1e-6);
}

// A mean of 2 and a variance of 9, with momentum 1/4: (2 + 3) / 4, and 3 (2 + 3) / 4.
TEST(StateSizes, AreOfWhatTheStatisticsAreMadeOf) {
  nn::ModelSpec model;
  model.input_shape = {1, 4, 4};
  model.layers = {{.name = "n", .type = nn::LayerType::batch_norm2d, .momentum = 0.25}};
  const auto tensors = [](float mean, float variance) {
    return std::vector<nn::NamedTensor>{{"n.running_mean", {1}, {mean}},
                                        {"n.running_var", {1}, {variance}},
                                        {"n.num_batches_tracked", {}, {}, DataType::int64, {0}}};
  };
  EXPECT_THAT(
      state_sizes(model, tensors(4, 1), tensors(3.5f, 3)),
      testing::ElementsAre(testing::DoubleNear(1.25, 1e-6), testing::DoubleNear(3.75, 1e-6), 0));
}

TrainingJob reference_of(int replicas, const std::string& precision) {
  TrainingJob job;
  job.cell.strategy = "reference";
  job.cell.world_size = replicas;
  job.network.has_state = true;
  job.options.precision = precision;
  return job;
}

TEST(ProbeOptionsOf, AreThoseThatRoundOtherwise) {
  const auto fp32 = probe_options(reference_of(2, "fp32"));
  ASSERT_TRUE(fp32);
  EXPECT_GT(fp32->allowance, 3);
  EXPECT_NE(std::exp2(std::round(std::log2(fp32->loss_factor))), fp32->loss_factor);
}

// Slices have the bits of the replicas, where the scales of their losses differ by a power of two.
TEST(ProbeOptionsOf, AreThoseOfTheReplicasWhereMapsAreRounded) {
  for (const char* precision : {"bf16", "tf32"}) {
    for (const int replicas : {1, 2, 8}) {
      EXPECT_FALSE(probe_options(reference_of(replicas, precision))) << replicas;
    }
    for (const bool has_state : {true, false}) {
      TrainingJob job = reference_of(3, precision);
      job.network.has_state = has_state;
      const auto three = probe_options(job);
      ASSERT_TRUE(three);
      EXPECT_EQ(three->loss_factor, 3);
      EXPECT_GT(three->allowance, 1);
      EXPECT_LT(three->allowance, 3);
    }
  }
}

TEST(ProbeOptionsOf, AreNoneWhereNothingCancelsAndInOtherRuns) {
  TrainingJob job = reference_of(2, "fp32");
  job.network.has_state = false;
  EXPECT_FALSE(probe_options(job));
  job = reference_of(2, "fp32");
  job.cell.strategy = "ddp";
  EXPECT_FALSE(probe_options(job));
}

}  // namespace
}  // namespace ddpbench::bench
