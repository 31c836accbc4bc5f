// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace ddpbench::bench {
namespace {

using testing::ElementsAre;

CpuTopology with_cores(int count) {
  CpuTopology topology;
  for (int core = 0; core < count; ++core) topology.cores.push_back(core);
  return topology;
}

launch::RankEnvironment place(int rank, int size) {
  launch::RankEnvironment environment;
  environment.rank = rank;
  environment.world_size = size;
  return environment;
}

JoinedHosts on(const std::string& marks) {
  std::vector<JoinedHosts::Member> members;
  for (const char mark : marks) members.push_back({std::string(1, mark), std::string(1, mark)});
  return JoinedHosts(members);
}

TEST(OwnCores, FollowThePlanOfASupervisorOnOneHostWithoutBinding) {
  const auto online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_FALSE(own_cores(2, 1, place(0, 2), on("aa"), with_cores(online + 2)));
  EXPECT_FALSE(own_cores(1, 1, place(0, 1), {}, with_cores(1)));
}

TEST(OwnCores, AreThoseOfTheRanksOfItsHostWhereThereAreSeveral) {
  const auto own = own_cores(4, 1, place(3, 4), on("abab"), with_cores(8));
  ASSERT_TRUE(own);
  EXPECT_THAT(*own, ElementsAre(1));  // the second rank of b
  EXPECT_THAT(*own_cores(4, 1, place(2, 4), on("aaab"), with_cores(2)), ElementsAre(0))
      << "in turn";
}

TEST(OwnCores, AreKeptWhereALauncherHasBoundTheRank) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "there is one core";
  CpuTopology bound;
  bound.cores = {5};
  const auto own = own_cores(2, 1, place(1, 2), on("aa"), bound);
  ASSERT_TRUE(own);
  EXPECT_THAT(*own, ElementsAre(5));
}

TEST(OwnCores, AreTakenInTurnWhereRanksAreBoundToTheSameFew) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 3) GTEST_SKIP() << "so few are all";
  CpuTopology bound;
  bound.cores = {4, 6};
  EXPECT_THAT(*own_cores(4, 1, place(3, 4), on("aaaa"), bound), ElementsAre(6));
}

TEST(SharedCores, AreThoseOfAHostWithMoreThreadsThanCores) {
  EXPECT_FALSE(share_cores({{0, {0}}, {0, {1}}}));
  EXPECT_FALSE(share_cores({{0, {0}}, {1, {0}}})) << "on two hosts";
  EXPECT_FALSE(share_cores({{0, {0, 1}}, {0, {2, 3}}}));
  EXPECT_TRUE(share_cores({{0, {0, 1}}, {0, {0, 1}}})) << "two cores for two threads of each";
  EXPECT_TRUE(share_cores({{0, {0}}, {0, {0}}}));
  EXPECT_TRUE(share_cores({{0, {0}}, {1, {0}}, {1, {1}}, {1, {0}}}));
  EXPECT_FALSE(share_cores({}));
}

}  // namespace
}  // namespace ddpbench::bench
