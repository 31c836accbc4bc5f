// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/rank_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Hosts = std::vector<HostSlots>;

template <typename Action>
std::string config_error(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

std::string list_error(const std::string& text) {
  return config_error([&] { parse_host_list(text); });
}

class HostFile : public testing::Test {
 protected:
  HostFile() {
    std::string pattern = testing::TempDir() + "/hosts-XXXXXX";
    const int file = ::mkstemp(pattern.data());
    ::close(file);
    path = pattern;
  }
  ~HostFile() override { ::unlink(path.c_str()); }
  Hosts read(const std::string& text) {
    std::ofstream(path) << text;
    return read_host_file(path);
  }
  std::string error(const std::string& text) {
    return config_error([&] { read(text); });
  }
  std::string path;
};

TEST(HostList, ReadsNamesWithTheirSlots) {
  EXPECT_EQ(parse_host_list("a:2,b:3"), (Hosts{{"a", 2}, {"b", 3}}));
  EXPECT_EQ(parse_host_list("me@a.example, 10.0.0.2:4"),
            (Hosts{{"me@a.example", 1}, {"10.0.0.2", 4}}));
}

TEST(HostList, AddsUpTheSlotsOfAHostThatIsListedAgain) {
  EXPECT_EQ(parse_host_list("a,b:2,a:3"), (Hosts{{"a", 4}, {"b", 2}}));
}

TEST(HostList, TakesSlurmsRanges) {
  EXPECT_EQ(parse_host_list("n[08-10]:2, b"),
            (Hosts{{"n08", 2}, {"n09", 2}, {"n10", 2}, {"b", 1}}));
  EXPECT_EQ(parse_host_list("r[1-2]-ib.example"),
            (Hosts{{"r1-ib.example", 1}, {"r2-ib.example", 1}}));
  EXPECT_EQ(parse_host_list("n[01-02,07]:2,b"),
            (Hosts{{"n01", 2}, {"n02", 2}, {"n07", 2}, {"b", 1}}));
  EXPECT_THAT(list_error("n[2-1]"), HasSubstr("'2-1' is no range of numbers"));
  EXPECT_THAT(list_error("n[a-b]"), HasSubstr("no range"));
  EXPECT_THAT(list_error("n[1-]"), HasSubstr("no range"));
  EXPECT_THAT(list_error("n[1-2-3]"), HasSubstr("no range"));
  EXPECT_THAT(list_error("n[1-99999999]"), HasSubstr("no range"));
  EXPECT_THAT(list_error("n[1-2"), HasSubstr("'n[1-2' is not the name of a host"));
  EXPECT_THAT(list_error("n]1[:2"), HasSubstr("'n]1[:2' is not the name of a host"));
}

TEST(HostList, NamesTheEntryThatIsWrong) {
  EXPECT_THAT(list_error(""), HasSubstr("--hosts: ''"));
  EXPECT_THAT(list_error("a,,b"), HasSubstr("''"));
  EXPECT_THAT(list_error("a:0"), HasSubstr("'0' is not a number of slots"));
  EXPECT_THAT(list_error("a:two"), HasSubstr("'two'"));
  EXPECT_THAT(list_error("a:99999999999"), HasSubstr("'99999999999'"));
  EXPECT_THAT(list_error("a b"), HasSubstr("'a b' is not the name of a host"));
  EXPECT_THAT(list_error("me@"), HasSubstr("'me@'"));
  EXPECT_THAT(list_error("@a"), HasSubstr("'@a'"));
  EXPECT_THAT(list_error("me@you@a"), HasSubstr("'me@you@a'"));
  EXPECT_THAT(list_error("::1:2"), HasSubstr("'::1:2' is not the name of a host"));
}

// A name that begins with a dash would be an option of ssh, which can run programs here.
TEST(HostList, RefusesWhatARemoteShellWouldTakeForAnOption) {
  EXPECT_THAT(list_error("-oProxyCommand=x"), HasSubstr("is not the name of a host"));
  EXPECT_THAT(list_error("me@-v"), HasSubstr("is not the name of a host"));
  EXPECT_THAT(list_error("a;reboot"), HasSubstr("is not the name of a host"));
}

TEST_F(HostFile, TakesTheFormsOfOtherLaunchers) {
  EXPECT_EQ(read("# two hosts\na slots=2   # as mpirun's\n\n  me@b:3\r\nc\n"),
            (Hosts{{"a", 2}, {"me@b", 3}, {"c", 1}}));
  EXPECT_EQ(read("n1\nn1\nn2\n"), (Hosts{{"n1", 2}, {"n2", 1}})) << "a line a slot";
  EXPECT_EQ(read("\xef\xbb\xbfn1 slots = 2\nn2 slots= 3 max_slots=4\nn3 max-slots = 2 slots=1\n"),
            (Hosts{{"n1", 2}, {"n2", 3}, {"n3", 1}}));
  EXPECT_EQ(read("node[01-02,7] slots=8\n"), (Hosts{{"node01", 8}, {"node02", 8}, {"node7", 8}}));
}

TEST_F(HostFile, NamesFileAndLineOfWhatIsWrong) {
  EXPECT_THAT(error("a\nb slots=x\n"), HasSubstr(path + ": line 2: 'x' is not a number of slots"));
  EXPECT_THAT(error("a\n\n-b\n"), HasSubstr(path + ": line 3: '-b' is not the name of a host"));
  EXPECT_THAT(error("a cores=2\n"), HasSubstr(path + ": line 1: 'cores=2'"));
  EXPECT_THAT(error("a:2 slots=2\n"), HasSubstr("give one of them"));
  EXPECT_THAT(error("# nothing\n"), HasSubstr(path + ": it lists no host"));
  EXPECT_THAT(config_error([] { read_host_file("/nowhere/hosts"); }), HasSubstr("/nowhere/hosts"));
}

TEST(HostAddress, IsTheNameWithoutTheUser) {
  EXPECT_EQ(host_address_of({"me@a", 1}), "a");
  EXPECT_EQ(host_address_of({"10.0.0.2", 1}), "10.0.0.2");
}

TEST(RankPlaces, FillOneHostAfterTheOther) {
  EXPECT_THAT(place_ranks({{"a", 2}, {"b", 2}}, 3, 0), ElementsAre(0, 0, 1));
}

TEST(RankPlaces, OfServersAreTheSlotsThatAreLeftAndThenEachHostInTurn) {
  EXPECT_THAT(place_ranks({{"a", 2}, {"b", 1}}, 2, 3), ElementsAre(0, 0, 1, 0, 1));
}

TEST(RankPlaces, AreNoMoreThanTheSlots) {
  EXPECT_THAT(config_error([] {
                place_ranks({{"a", 1}, {"b", 1}}, 3, 0);
              }),
              HasSubstr("3 devices, but the hosts have 2 slots"));
}

}  // namespace
}  // namespace ddpbench::bench
