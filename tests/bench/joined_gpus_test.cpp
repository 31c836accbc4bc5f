// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_gpus.h"

#include <gmock/gmock.h>

namespace ddpbench::bench {
namespace {

using testing::ElementsAre;

CudaProbe sees(const std::vector<std::string>& uuids) {
  CudaProbe probe;
  for (const std::string& uuid : uuids) {
    CudaDeviceInfo gpu;
    gpu.ordinal = static_cast<int>(probe.devices.size());
    gpu.uuid = uuid;
    probe.devices.push_back(gpu);
  }
  return probe;
}

std::vector<std::string> world_of(const JoinedGpus& gpus) {
  std::vector<std::string> uuids;
  for (const CudaDeviceInfo& gpu : gpus.world.devices) uuids.push_back(gpu.uuid);
  return uuids;
}

TEST(JoinedGpus, AreTakenInTurnWhereAllSeeTheSame) {
  const auto gpus = assign_gpus({sees({"a", "b"}), sees({"a", "b"}), sees({"a", "b"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 1, 0));
  EXPECT_THAT(world_of(gpus), ElementsAre("a", "b"));
  EXPECT_EQ(gpus.unseen, "");
}

TEST(JoinedGpus, AreEachRanksOwnWhereItSeesOne) {
  const auto gpus = assign_gpus({sees({"b"}), sees({"a"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 0));
  EXPECT_THAT(world_of(gpus), ElementsAre("b", "a"));
  EXPECT_EQ(gpus.world.devices[1].ordinal, 1);
  EXPECT_EQ(gpus.unseen, "rank 0 does not see rank 1's GPU a");
}

TEST(JoinedGpus, AreTheFirstThatNobodyTook) {
  const auto gpus = assign_gpus({sees({"a", "b"}), sees({"b", "a"}), sees({"a", "b", "c"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 0, 2));
  EXPECT_THAT(world_of(gpus), ElementsAre("a", "b", "c"));
  EXPECT_EQ(gpus.unseen, "rank 0 does not see rank 2's GPU c");
}

TEST(JoinedGpus, AreGivenUpWhereAnotherIsThere) {
  const auto gpus =
      assign_gpus({sees({"a", "b"}), sees({"b", "a"}), sees({"b"}), sees({"a", "c"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(gpus.numbers, ElementsAre(0, 1, 1, 2));  // three GPUs for four
  const auto moved = assign_gpus({sees({"a", "b"}), sees({"a"})});
  EXPECT_THAT(moved.ordinals, ElementsAre(1, 0));
  EXPECT_THAT(moved.numbers, ElementsAre(0, 1));
  EXPECT_THAT(world_of(moved), ElementsAre("b", "a"));
  const auto chain = assign_gpus({sees({"a", "b"}), sees({"b", "c"}), sees({"a"}), sees({"b"})});
  EXPECT_THAT(chain.numbers, ElementsAre(0, 1, 2, 0));
}

TEST(JoinedGpus, AreNoneWhereARankSeesNone) {
  CudaProbe blind;
  blind.reason = "no driver";
  const auto gpus = assign_gpus({sees({"a"}), blind});
  EXPECT_TRUE(gpus.world.devices.empty());
  EXPECT_EQ(gpus.world.reason, "rank 1: no driver");
}

TEST(JoinedGpus, AreFoundToBeOneAndTheSame) {
  const auto gpus = assign_gpus({sees({"a"}), sees({"a"}), sees({"b", "a"})});
  EXPECT_THAT(gpus.ordinals, ElementsAre(0, 0, 0));
  EXPECT_THAT(gpus.numbers, ElementsAre(0, 0, 1));
  EXPECT_THAT(world_of(gpus), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace ddpbench::bench
