// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a world on several hosts: who is where, what that rules out, and which GPUs they have.
#include "bench/launchers/rank_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const RankHosts kThree({{"a", "boot1 pid:1"},
                        {"b", "boot2 pid:1"},
                        {"a", "boot1 pid:1"},
                        {"b", "boot2 pid:1"},
                        {"c", "boot3 pid:1"}});

TEST(RankHosts, NumbersHostsByTheirLowestRanks) {
  EXPECT_TRUE(kThree.are_several());
  EXPECT_EQ(kThree.count(), 3);
  EXPECT_EQ(kThree.name(3), "b");
  EXPECT_EQ(kThree.index_on_host(2), 1);
  EXPECT_THAT(kThree.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(kThree.list(), "a (ranks 0, 2), b (ranks 1, 3), c (rank 4)");
}

TEST(RankHosts, TellsCongestionControlOnceWhereAllHostsHaveTheSame) {
  const auto told = [](const std::string& second, const std::string& third) {
    return RankHosts({{"a", "1", "bbr"}, {"b", "2", second}, {"a", "1", "bbr"}, {"c", "3", third}})
        .congestion_control();
  };
  EXPECT_EQ(told("bbr", "bbr"), "bbr");
  EXPECT_EQ(told("reno", "bbr"), "a: bbr; b: reno; c: bbr");
  EXPECT_EQ(told("bbr", ""), "");
}

TEST(RankHosts, SpeaksOfNoHostWhereThereIsOne) {
  const RankHosts one({{"a", "boot pid:1"}, {"a", "boot pid:1"}});
  EXPECT_FALSE(one.are_several());
  EXPECT_FALSE(RankHosts().are_several());
}

TEST(RankHosts, CountsContainersThatCannotShareMemoryAsHosts) {
  const RankHosts two({{"box", "boot pid:1"}, {"box", "boot pid:2"}});
  EXPECT_TRUE(two.are_several());
  EXPECT_THAT(two.names(), ElementsAre("box", "box#2"));
}

TEST(RankHosts, TellsANameFromOneThatBeginsAlike) {
  const RankHosts two({{"node10", "boot1 pid:1"}, {"node1", "boot2 pid:1"}});
  EXPECT_THAT(two.names(), ElementsAre("node10", "node1"));
}

TEST(BackendOverHosts, RefusesSharedMemoryWithTheHostsAndAnotherBackend) {
  try {
    backend_over_hosts("shm", "cpu", kThree);
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("3 hosts"), HasSubstr("b (ranks 1, 3)"),
                                    HasSubstr("--backend=gloo")));
  }
  EXPECT_THROW(backend_over_hosts("shm", "cuda", kThree), ConfigError);
  EXPECT_EQ(backend_over_hosts("nccl", "cuda", kThree), "nccl");
  EXPECT_EQ(backend_over_hosts("auto", "cuda", kThree), "nccl");
}

// What a rank with that number on its host sees.
std::pair<int, CudaProbe> sees(int number, const std::vector<std::string>& uuids) {
  CudaProbe probe;
  for (const std::string& uuid : uuids) {
    CudaDeviceInfo gpu;
    gpu.ordinal = static_cast<int>(probe.devices.size());
    gpu.uuid = uuid;
    probe.devices.push_back(gpu);
  }
  return {number, probe};
}

std::vector<std::string> world_of(const std::vector<std::pair<int, CudaProbe>>& visible) {
  std::vector<std::string> uuids;
  for (const CudaDeviceInfo& gpu : gpus_of_world(visible, 0).devices) {
    EXPECT_EQ(gpu.ordinal, std::ssize(uuids));
    uuids.push_back(gpu.uuid);
  }
  return uuids;
}

TEST(GpusOfWorld, AreThoseThatRanksTakeByTheirNumbersOnTheirHosts) {
  EXPECT_THAT(world_of({sees(0, {"a", "b"}), sees(1, {"a", "b"}), sees(2, {"a", "b"})}),
              ElementsAre("a", "b"))
      << "two GPUs for three processes";
  EXPECT_THAT(world_of({sees(0, {"a", "b"}), sees(1, {"a", "b"}), sees(0, {"c", "d"}),
                        sees(1, {"c", "d"})}),
              ElementsAre("a", "b", "c", "d"));
}

TEST(GpusOfWorld, AreEachRanksOwnWhereItSeesOne) {
  EXPECT_THAT(world_of({sees(0, {"b"}), sees(1, {"a"})}), ElementsAre("b", "a"));
}

TEST(GpusOfWorld, AreFoundToBeOneByTheirUuids) {
  EXPECT_THAT(world_of({sees(0, {"a"}), sees(1, {"a"}), sees(2, {"b", "a"})}),
              ElementsAre("a", "b"));
  EXPECT_THAT(world_of({sees(0, {"a", "b"}), sees(1, {"b", "a"})}), ElementsAre("a"));
}

TEST(GpusOfWorld, AreNoneWhereARankSeesNone) {
  std::pair<int, CudaProbe> blind;
  blind.second.reason = "no driver";
  const CudaProbe world = gpus_of_world({sees(0, {"a"}), blind}, 0);
  EXPECT_TRUE(world.devices.empty());
  EXPECT_EQ(world.reason, "rank 1: no driver");
  EXPECT_EQ(gpus_of_world({sees(0, {"a"}), blind}, 1).devices.size(), 1u) << "a server on the CPU";
}

}  // namespace
}  // namespace ddpbench::bench
