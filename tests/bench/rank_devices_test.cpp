// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_devices.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace ddpbench::bench {
namespace {

using testing::EndsWith;
using testing::Eq;
using testing::Optional;

constexpr std::array kVariables = {"NCCL_RUNTIME_CONNECT", "NCCL_HOSTID",
                                   "NCCL_SOCKET_IFNAME",   "OMPI_MCA_btl_tcp_if_include",
                                   "OMPI_MCA_btl",         "OMPI_MCA_pml"};

// Tests what a rank sets for NCCL and MPI, besides what the user has set.
class PrepareRank : public testing::Test {
 protected:
  PrepareRank() {
    for (const char* const name : kVariables) {
      before_[name] = value(name);
      ::unsetenv(name);
    }
  }
  ~PrepareRank() override {
    for (const auto& [name, text] : before_) {
      if (text) {
        ::setenv(name.c_str(), text->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  static std::optional<std::string> value(const std::string& name) {
    const char* const text = std::getenv(name.c_str());
    return text == nullptr ? std::nullopt : std::optional<std::string>(text);
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(PrepareRank, LetsNcclConnectWhereADeadlineEndsIt) {
  prepare_rank({.backend = "nccl"}, 1);
  EXPECT_THAT(value("NCCL_RUNTIME_CONNECT"), Optional(Eq("0")));
  EXPECT_EQ(value("NCCL_HOSTID"), std::nullopt);
}

TEST_F(PrepareRank, LetsRanksOfOneGpuPassForHosts) {
  prepare_rank({.backend = "nccl", .oversubscribed = true}, 1);
  EXPECT_THAT(value("NCCL_RUNTIME_CONNECT"), Optional(Eq("0")));
  EXPECT_THAT(value("NCCL_HOSTID"), Optional(EndsWith("-1")));
}

TEST_F(PrepareRank, NamesTheInterfaceToTheLibrary) {
  prepare_rank({.backend = "nccl"}, 1, {.interface = "eth0"});
  EXPECT_THAT(value("NCCL_SOCKET_IFNAME"), Optional(Eq("=eth0")));
  prepare_rank({.backend = "gloo"}, 1, {.interface = "eth0"});
  EXPECT_EQ(value("OMPI_MCA_btl_tcp_if_include"), std::nullopt);
  prepare_rank({.backend = "shm+mpi"}, 1, {.interface = "eth0"});
  EXPECT_THAT(value("OMPI_MCA_btl_tcp_if_include"), Optional(Eq("eth0")));
  prepare_rank({.backend = "mpi"}, 1, {.interface = "eth1"});
  EXPECT_THAT(value("OMPI_MCA_btl_tcp_if_include"), Optional(Eq("eth0"))) << "it was set";
}

TEST_F(PrepareRank, NamesNoInterfaceOfItsOwnAccord) {
  for (const char* const backend : {"nccl", "mpi"}) prepare_rank({.backend = backend}, 1);
  EXPECT_EQ(value("NCCL_SOCKET_IFNAME"), std::nullopt);
  EXPECT_EQ(value("OMPI_MCA_btl_tcp_if_include"), std::nullopt);
}

TEST_F(PrepareRank, OpensNoPortsOfMpiOnOneHost) {
  prepare_rank({.backend = "mpi"}, 1);
  EXPECT_EQ(value("OMPI_MCA_btl"), std::nullopt) << "nothing says that there is one host only";
  prepare_rank({.backend = "mpi"}, 1, {.on_one_host = true});
  EXPECT_THAT(value("OMPI_MCA_btl"), Optional(Eq("^tcp,ofi,openib,usnic")));
  EXPECT_THAT(value("OMPI_MCA_pml"), Optional(Eq("ob1")));
}

TEST_F(PrepareRank, GivesMpiPortsOfLoopbackWhereSharedMemoryHasNoRoom) {
  prepare_rank({.backend = "mpi"}, 1, {.on_one_host = true, .ranks = 1 << 30});
  EXPECT_THAT(value("OMPI_MCA_btl"), Optional(Eq("self,tcp")));
  EXPECT_THAT(value("OMPI_MCA_btl_tcp_if_include"), Optional(Eq("lo")));
}

TEST_F(PrepareRank, LeavesWhatTheUserSaidAndOtherBackends) {
  prepare_rank({.backend = "shm", .oversubscribed = true}, 1);
  EXPECT_EQ(value("NCCL_RUNTIME_CONNECT"), std::nullopt);
  ::setenv("NCCL_RUNTIME_CONNECT", "1", 1);
  prepare_rank({.backend = "nccl"}, 1);
  EXPECT_THAT(value("NCCL_RUNTIME_CONNECT"), Optional(Eq("1")));
}

}  // namespace
}  // namespace ddpbench::bench
