// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the plan of a step says is what its communicators move, link by link.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "kernels/runtime/cpu_device.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using comm::AllReduceAlgorithm;
using comm::LinkTraffic;
using comm::Traffic;

struct TrafficCase {
  std::string strategy;
  int replicas = 2, servers = 0;
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic;
  bool synced = false, broadcasts = false;
  std::string model = "small";
  std::size_t bucket_cap = 4096;
};

std::string name_of(const TrafficCase& c) {
  std::string name = fmt::format("{}On{}", c.strategy, c.replicas);
  if (c.servers > 0) name += fmt::format("Servers{}", c.servers);
  if (c.all_reduce != AllReduceAlgorithm::automatic) name += to_string(c.all_reduce);
  if (c.synced) name += "Synced";
  if (c.broadcasts) name += "Broadcasts";
  if (c.bucket_cap > 4096) name += "LargeBuckets";
  return name + c.model;
}
void PrintTo(const TrafficCase& c, std::ostream* out) { *out << name_of(c); }

nn::ModelSpec traffic_model(const TrafficCase& c) {
  if (c.model == "normalized") return test::normalized_model();
  return c.model == "auxiliary" ? test::auxiliary_model() : test::small_model();
}

StrategyConfig traffic_config(const TrafficCase& c) {
  StrategyConfig config;
  config.strategy = c.strategy;
  config.replicas = c.replicas;
  config.servers = c.servers;
  config.per_device_batch = 6;
  config.first_bucket_bytes = 256;
  config.bucket_cap_bytes = c.bucket_cap;
  config.sync_batch_norm = c.synced;
  config.broadcast_buffers = c.broadcasts;
  return config;
}

LinkTraffic planned_traffic(const TrafficCase& c) {
  const StrategyConfig config = traffic_config(c);
  const auto device = make_cpu_device({.cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  SyncedBatch parts(config.replicas, nullptr, nullptr);
  const nn::ModelSpec model = traffic_model(c);
  const nn::Graph graph(model, *device, *backend,
                        {.batch = config.per_device_batch, .parts = c.synced ? &parts : nullptr});
  return step_traffic(config, graph, comm_backend("shm"), c.all_reduce).value();
}

LinkTraffic counted_traffic(const TrafficCase& c, int steps) {
  return test::run_strategy(traffic_model(c), traffic_config(c),
                            {.steps = steps, .all_reduce = c.all_reduce})
      .traffic;
}

class StepTraffic : public testing::TestWithParam<TrafficCase> {};

TEST_P(StepTraffic, IsWhatTheCommunicatorsMove) {
  const TrafficCase& c = GetParam();
  const LinkTraffic planned = planned_traffic(c);
  // The difference of two runs leaves out what setup and end send.
  const LinkTraffic two = counted_traffic(c, 2), five = counted_traffic(c, 5);
  ASSERT_EQ(planned.ranks(), five.ranks());
  for (int from = 0; from < planned.ranks(); ++from) {
    for (int to = 0; to < planned.ranks(); ++to) {
      const Traffic &link = planned.between(from, to), &many = five.between(from, to);
      EXPECT_EQ(3 * link.messages, many.messages - two.between(from, to).messages)
          << from << " to " << to;
      EXPECT_EQ(3 * link.bytes, many.bytes - two.between(from, to).bytes) << from << " to " << to;
    }
  }
  EXPECT_EQ(planned.total().bytes > 0, c.strategy != "single");
}

constexpr auto kRing = AllReduceAlgorithm::ring, kDirect = AllReduceAlgorithm::direct;

INSTANTIATE_TEST_SUITE_P(
    , StepTraffic,
    testing::Values(
        TrafficCase{"single", 1}, TrafficCase{"ddp", 2, 0, kRing}, TrafficCase{"ddp", 3, 0, kRing},
        TrafficCase{"ddp", 3, 0, kDirect}, TrafficCase{"ddp", 3},
        TrafficCase{.strategy = "ddp", .replicas = 3, .bucket_cap = 1 << 20},
        TrafficCase{.strategy = "ddp", .replicas = 4, .all_reduce = kRing, .bucket_cap = 1 << 20},
        TrafficCase{"ddp", 3, 0, kDirect, true, false, "normalized"},
        TrafficCase{"ddp", 2, 0, kRing, true, false, "normalized"},
        TrafficCase{"ddp", 3, 0, kDirect, false, true, "normalized"}, TrafficCase{"ps", 2, 1},
        TrafficCase{"ps", 2, 2}, TrafficCase{"ps", 3, 2, {}, true, false, "normalized"},
        TrafficCase{"ps", 1, 1}, TrafficCase{"dp", 2}, TrafficCase{"dp", 3},
        TrafficCase{"dp", 3, 0, {}, true, false, "normalized"},
        TrafficCase{"dp", 2, 0, {}, false, false, "auxiliary"}),
    [](const auto& chosen) { return name_of(chosen.param); });

std::vector<TrafficCase> case_of_each_strategy() {
  std::vector<TrafficCase> cases;
  for (const StrategyTraits& row : all_strategies()) {
    if (row.calls == nullptr) continue;
    cases.push_back(
        {.strategy = std::string(row.name), .replicas = 4, .servers = row.has_servers ? 3 : 0});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(OfEach, StepTraffic, testing::ValuesIn(case_of_each_strategy()),
                         [](const auto& chosen) { return name_of(chosen.param); });

TEST(StepTrafficOf, EveryStrategyBetweenDevicesIsKnown) {
  for (const StrategyTraits& row : all_strategies()) {
    EXPECT_EQ(row.calls != nullptr, row.is_listed && !row.is_baseline()) << row.name;
  }
}

// The figures of docs/algorithms.md, for S bytes of parameters.
TEST(StepTrafficOf, RingAndServersIsThatOfTheFormulas) {
  const auto model = test::small_model();
  const auto flat = [&] {
    const auto device = make_cpu_device({.cores = {}});
    const auto backend = ops::make_onednn_backend(*device);
    return nn::Graph(model, *device, *backend, {.batch = 1}).plan().flat_bytes;
  }();
  for (const int n : {2, 3, 4}) {
    const auto others = static_cast<std::uint64_t>(n - 1);
    const LinkTraffic ring = planned_traffic(
        {.strategy = "ddp", .replicas = n, .all_reduce = kRing, .bucket_cap = 64 << 20});
    EXPECT_EQ(ring.total().bytes, 2 * others * flat);
  }
  const LinkTraffic one = planned_traffic({"ps", 2, 1}), two = planned_traffic({"ps", 2, 2});
  constexpr std::uint64_t kCommand = 8;
  EXPECT_EQ(one.total(), (Traffic{.messages = 6, .bytes = 4 * flat + 2 * kCommand}));
  EXPECT_EQ(two.total(), (Traffic{.messages = 12, .bytes = 4 * flat + 4 * kCommand}));
  EXPECT_EQ(one.received(2).bytes, 2 * flat + 2 * kCommand);
  EXPECT_EQ(two.received(2).bytes + two.received(3).bytes, 2 * flat + 4 * kCommand);
}

}  // namespace
}  // namespace ddpbench
