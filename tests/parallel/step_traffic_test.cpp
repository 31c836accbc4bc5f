// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What communicators count in a step is what docs/metrics.md says, participant by participant.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/cpu_device.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

constexpr auto kRing = comm::AllReduceAlgorithm::ring;

// Taken in a step by each worker, then each server.
std::vector<comm::Traffic> taken_in_a_step(const std::string& strategy, int replicas, int servers,
                                           bool synced = false) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.servers = servers;
  config.per_device_batch = 6;
  config.sync_batch_norm = synced;
  const auto count = [&](int steps) {
    const nn::ModelSpec model = synced ? test::normalized_model() : test::small_model();
    return test::run_strategy(model, config, {.steps = steps, .all_reduce = kRing}).taken;
  };
  // The difference of two runs leaves out what setup and end send.
  const auto two = count(2), three = count(3);
  std::vector<comm::Traffic> taken;
  for (std::size_t i = 0; i < two.size(); ++i) {
    taken.push_back({three[i].messages - two[i].messages, three[i].bytes - two[i].bytes});
  }
  return taken;
}

std::uint64_t parameter_bytes(const nn::ModelSpec& model) {
  const auto device = make_cpu_device({.cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  return nn::Graph(model, *device, *backend, {.batch = 1}).plan().flat_bytes;
}

TEST(StepTraffic, OfARingIsTwiceTheOthersPartOfTheGradients) {
  const std::uint64_t bytes = parameter_bytes(test::small_model());
  for (const int n : {2, 3, 4}) {
    comm::Traffic sum;
    for (const comm::Traffic& one : taken_in_a_step("ddp", n, 0)) {
      sum.messages += one.messages;
      sum.bytes += one.bytes;
    }
    const auto others = static_cast<std::uint64_t>(n - 1);
    EXPECT_EQ(sum.bytes, 2 * others * bytes) << n;
    EXPECT_EQ(sum.messages, 2 * others * static_cast<std::uint64_t>(n)) << n;
  }
}

// Each rank takes the others' gradients of its part, then their parts of the weights; beside them
// the tail of less than n lines travels whole.
TEST(StepTraffic, OfShardsIsThatOfAnAllReduce) {
  const std::uint64_t bytes = parameter_bytes(test::small_model());
  for (const std::uint64_t n : {2, 3, 4}) {
    const std::uint64_t tail = bytes % (64 * n), divided = bytes - tail;
    std::uint64_t sum = 0;
    for (const comm::Traffic& one : taken_in_a_step("zero1", static_cast<int>(n), 0)) {
      sum += one.bytes;
    }
    EXPECT_GE(sum, 2 * (n - 1) * divided) << n;
    EXPECT_LE(sum, 2 * (n - 1) * divided + n * n * tail) << n;
  }
}

TEST(StepTraffic, OfServersIsGradientsAndResultsAndCommands) {
  const std::uint64_t bytes = parameter_bytes(test::small_model());
  constexpr std::uint64_t kCommand = 8;
  for (const std::uint64_t servers : {1, 2}) {
    const auto taken = taken_in_a_step("ps", 2, static_cast<int>(servers));
    for (const std::size_t worker : {0, 1}) {
      EXPECT_EQ(taken[worker], (comm::Traffic{.messages = servers, .bytes = bytes}));
    }
    comm::Traffic sum;
    for (std::size_t i = 2; i < taken.size(); ++i) {
      sum.messages += taken[i].messages;
      sum.bytes += taken[i].bytes;
    }
    EXPECT_EQ(sum, (comm::Traffic{4 * servers, 2 * bytes + 2 * servers * kCommand}));
  }
}

TEST(StepTraffic, OfOneProcessHasItsThreads) {
  const auto taken = taken_in_a_step("dp", 3, 0);
  // The primary takes the outputs, its chunk of all gradients, and the chunks of the others.
  EXPECT_EQ(taken[0].messages, 2u + 2u + 2u);
  // The others take input, parameters, the gradients of the outputs, and a chunk of two ranks.
  EXPECT_EQ(taken[1].messages, 3u + 2u);
  EXPECT_EQ(taken[1].messages, taken[2].messages);
}

TEST(StepTraffic, OfStatisticsIsThatOfTheirExchanges) {
  const auto with = taken_in_a_step("ddp", 2, 0, true);
  EXPECT_GT(with[0].messages, 2u);
  EXPECT_EQ(with[0], with[1]);
}

}  // namespace
}  // namespace ddpbench
