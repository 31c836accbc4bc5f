// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_devices.h"

#include <gmock/gmock.h>

#include <thread>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using testing::ElementsAre;

VisibleGpus sees(int local_rank, const std::vector<std::string>& uuids) {
  VisibleGpus gpus{.local_rank = local_rank, .probe = {}};
  for (const std::string& uuid : uuids) {
    CudaDeviceInfo gpu;
    gpu.ordinal = static_cast<int>(gpus.probe.devices.size());
    gpu.uuid = uuid;
    gpus.probe.devices.push_back(gpu);
  }
  return gpus;
}

std::vector<std::string> world_of(const JoinedGpus& gpus) {
  std::vector<std::string> uuids;
  for (const CudaDeviceInfo& gpu : gpus.world.devices) uuids.push_back(gpu.uuid);
  return uuids;
}

TEST(JoinedGpus, AreTheLocalRanksModuloThoseThatItSees) {
  const auto gpus = assign_gpus({sees(0, {"a", "b"}), sees(1, {"a", "b"}), sees(2, {"a", "b"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 1, 0));
  EXPECT_THAT(gpus.numbers, ElementsAre(0, 1, 0));  // two GPUs for three processes
  EXPECT_THAT(world_of(gpus), ElementsAre("a", "b"));
}

TEST(JoinedGpus, FollowTheLocalRankAndNotTheRank) {
  const auto gpus = assign_gpus(
      {sees(0, {"a", "b"}), sees(1, {"a", "b"}), sees(0, {"c", "d"}), sees(1, {"c", "d"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(gpus.numbers, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(world_of(gpus), ElementsAre("a", "b", "c", "d"));
}

// A plan deals the world's GPUs out in turn.
TEST(JoinedGpus, TakeTheirPlacesInAPlan) {
  const auto gpus = assign_gpus({sees(0, {"a", "b"}), sees(0, {"a", "b"}), sees(1, {"a", "b"})});
  std::vector<int> plan{0, 1, 0};
  give_own_gpus(gpus, plan);
  EXPECT_THAT(plan, ElementsAre(0, 0, 1));
  std::vector<int> workers{0, 1};  // the third rank is a server on a CPU device
  give_own_gpus(gpus, workers);
  EXPECT_THAT(workers, ElementsAre(0, 0));
  std::vector<int> none;
  give_own_gpus(gpus, none);
  EXPECT_TRUE(none.empty());
}

TEST(JoinedGpus, AreEachRanksOwnWhereItSeesOne) {
  const auto gpus = assign_gpus({sees(0, {"b"}), sees(1, {"a"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 0));
  EXPECT_THAT(world_of(gpus), ElementsAre("b", "a"));
  EXPECT_EQ(gpus.world.devices[1].ordinal, 1);
}

TEST(JoinedGpus, AreFoundToBeOneByTheirUuids) {
  const auto alone = assign_gpus({sees(0, {"a"}), sees(1, {"a"}), sees(2, {"b", "a"})});
  EXPECT_THAT(alone.ordinals, ElementsAre(0, 0, 0));
  EXPECT_THAT(alone.numbers, ElementsAre(0, 0, 1));
  EXPECT_THAT(world_of(alone), ElementsAre("a", "b"));
  const auto turned = assign_gpus({sees(0, {"a", "b"}), sees(1, {"b", "a"})});
  EXPECT_THAT(turned.ordinals, ElementsAre(0, 1));
  EXPECT_THAT(turned.numbers, ElementsAre(0, 0));
}

TEST(JoinedGpus, AreNoneWhereARankSeesNone) {
  VisibleGpus blind;
  blind.probe.reason = "no driver";
  const auto gpus = assign_gpus({sees(0, {"a"}), blind});
  EXPECT_TRUE(gpus.world.devices.empty());
  EXPECT_EQ(gpus.world.reason, "rank 1: no driver");
}

TEST(JoinedGpus, AreToldToAllRanks) {
  const auto store = comm::make_local_store();
  VisibleGpus first = sees(0, {"a", "b"});
  first.probe.devices[1].memory_bytes = 7;
  first.probe.devices[1].pci_bus_id = "0000:01:00.0";
  std::thread other([&] { exchange_gpus(*store, 0, 2, first, 30); });
  const auto all = exchange_gpus(*store, 1, 2, sees(1, {"c"}), 30);
  other.join();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].local_rank, 0);
  ASSERT_EQ(all[0].probe.devices.size(), 2u);
  EXPECT_EQ(all[0].probe.devices[1].uuid, "b");
  EXPECT_EQ(all[0].probe.devices[1].ordinal, 1);
  EXPECT_EQ(all[0].probe.devices[1].memory_bytes, 7u);
  EXPECT_EQ(all[0].probe.devices[1].pci_bus_id, "0000:01:00.0");
  EXPECT_EQ(all[1].local_rank, 1);
}

}  // namespace
}  // namespace ddpbench::bench
