// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Graph, loss and optimizer together: networks learn a batch by heart, equally on every backend.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

// The mean loss at each of `steps` steps of SGD on one batch with labels 0, 1, 2, ...
std::vector<double> train(TestGraph& test, int steps) {
  Graph& graph = test.graph();
  const auto allocate = [&](std::size_t bytes) {
    return test.device().allocate(bytes, MemoryCategory::optimizer);
  };
  const Buffer labels = allocate(static_cast<std::size_t>(graph.batch()) * sizeof(std::int32_t));
  const Buffer velocity = allocate(graph.plan().flat_bytes);
  const Buffer totals = allocate(sizeof(ops::LossTotals));
  auto* const sums = reinterpret_cast<ops::LossTotals*>(totals.data());
  const auto label = labels.view().as<std::int32_t>();
  for (std::size_t i = 0; i < label.size(); ++i) {
    label[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(graph.model().classes()));
  }
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    *sums = {};
    graph.forward(test.stream(), test.input());
    test.backend().loss(test.stream(), {.batch = graph.batch(), .classes = graph.model().classes()},
                        {.logits = graph.output(),
                         .labels = label.data(),
                         .samples = graph.batch(),
                         .grad_scale = 1.0F / static_cast<float>(graph.batch()),
                         .grad_logits = graph.output_gradient(),
                         .totals = sums});
    graph.backward(test.stream());
    test.backend().update(test.stream(),
                          {.weights = graph.weights().view().as<float>().data(),
                           .gradients = graph.gradients().view().as<float>().data(),
                           .state = velocity.data(),
                           .count = graph.plan().flat_bytes / sizeof(float),
                           .options = {.lr = 0.05, .momentum = 0.9, .weight_decay = 0}});
    test.stream().synchronize();
    losses.push_back(sums->loss_sum / static_cast<double>(graph.batch()));
  }
  return losses;
}

TEST(Training, LenetLearnsABatchByHeart) {
  TestGraph test(load_model_file(model_path("lenet5")), onednn, {.batch = 16, .micro_batch = 4});
  const std::vector<double> losses = train(test, 60);
  EXPECT_NEAR(losses.front(), std::log(10.0), 0.2);  // ten classes, no knowledge
  EXPECT_LT(losses.back(), 0.5 * losses.front());
}

TEST(Training, SimpleCnnLearnsABatchByHeart) {
  TestGraph test(simple_cnn(), onednn, {.batch = 16, .micro_batch = 0});
  const std::vector<double> losses = train(test, 30);
  EXPECT_NEAR(losses.front(), std::log(10.0), 0.2);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
}

TEST(Training, BranchedNetworkLearnsTheSameOnEveryBackend) {
  TestGraph plain(residual_network(), reference, {.batch = 6, .micro_batch = 0});
  TestGraph fast(residual_network(), onednn, {.batch = 6, .micro_batch = 2});
  const std::vector<double> expected = train(plain, 5), actual = train(fast, 5);
  EXPECT_LT(expected.back(), expected.front());
  // One step's rounding is 5e-5 of the gradients (gradient_test.cpp). Five steps of length 0.05
  // with momentum change the loss by less.
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 3e-4);
}

}  // namespace
}  // namespace ddpbench::nn
