// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a joined world on several hosts: who is where, and what that rules out.
#include "bench/joined/joined_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const JoinedHosts kThree({{"a", "boot1 pid:1"},
                          {"b", "boot2 pid:1"},
                          {"a", "boot1 pid:1"},
                          {"b", "boot2 pid:1"},
                          {"c", "boot3 pid:1"}});

TEST(JoinedHosts, NumbersHostsByTheirLowestRanks) {
  EXPECT_TRUE(kThree.are_several());
  EXPECT_EQ(kThree.count(), 3);
  EXPECT_EQ(kThree.of(3), 1);
  EXPECT_THAT(kThree.ranks(1), ElementsAre(1, 3));
  EXPECT_EQ(kThree.leader(3), 1);
  EXPECT_EQ(kThree.leader(4), 4);
  EXPECT_EQ(kThree.index_on_host(2), 1);
  EXPECT_TRUE(kThree.share_one(0, 2));
  EXPECT_FALSE(kThree.share_one(0, 1));
  EXPECT_THAT(kThree.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(kThree.words(3), "rank 3 on b");
  EXPECT_EQ(kThree.list(), "a (ranks 0, 2), b (ranks 1, 3), c (rank 4)");
}

TEST(JoinedHosts, TellsCongestionControlOnceWhereAllHostsHaveTheSame) {
  const auto told = [](const std::string& second, const std::string& third) {
    return JoinedHosts(
               {{"a", "1", "bbr"}, {"b", "2", second}, {"a", "1", "bbr"}, {"c", "3", third}})
        .congestion_control();
  };
  EXPECT_EQ(told("bbr", "bbr"), "bbr");
  EXPECT_EQ(told("reno", "bbr"), "a: bbr; b: reno; c: bbr");
  EXPECT_EQ(told("bbr", ""), "");
}

TEST(JoinedHosts, SpeaksOfNoHostWhereThereIsOne) {
  const JoinedHosts one({{"a", "boot pid:1"}, {"a", "boot pid:1"}});
  EXPECT_FALSE(one.are_several());
  EXPECT_EQ(one.words(1), "rank 1");
  EXPECT_FALSE(JoinedHosts().are_several());
}

TEST(JoinedHosts, CountsContainersThatCannotShareMemoryAsHosts) {
  const JoinedHosts two({{"box", "boot pid:1"}, {"box", "boot pid:2"}});
  EXPECT_TRUE(two.are_several());
  EXPECT_THAT(two.names(), ElementsAre("box", "box#2"));
  EXPECT_THAT(two.list(), AllOf(HasSubstr("one machine"), HasSubstr("containers")));
  EXPECT_THAT(kThree.list(), Not(HasSubstr("one machine")));
}

TEST(JoinedHosts, TellsANameFromOneThatBeginsAlike) {
  const JoinedHosts two({{"node10", "boot1 pid:1"}, {"node1", "boot2 pid:1"}});
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

TEST(NameHosts, NamesThemInTheEnvironmentTheErrorsAndTheDevices) {
  report::Report report;
  report.environment.hosts = {"a"};
  report.error.emplace().rank = 3;
  report.runs.emplace_back().devices.resize(5);
  for (int rank = 0; rank < 5; ++rank) {
    report.runs[0].devices[static_cast<std::size_t>(rank)].process_rank = rank;
  }
  name_hosts(JoinedHosts(), report);
  EXPECT_THAT(report.environment.hosts, ElementsAre("a"));
  name_hosts(kThree, report);
  EXPECT_THAT(report.environment.hosts, ElementsAre("a", "b", "c"));
  EXPECT_EQ(report.error->host, "b");
  EXPECT_EQ(report.runs[0].devices[4].host, "c");
}

}  // namespace
}  // namespace ddpbench::bench
