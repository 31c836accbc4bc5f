// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "bench/rank/run_memory.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Claimant {
  const char* pool;
  std::size_t limit, needs;
};

MemoryClaim claim_of(const Claimant& member, int index) {
  const auto device = make_cpu_device(
      {.index = index, .memory_limit_bytes = member.limit, .memory_pool = member.pool});
  MemoryNeeds needs(*device);
  const PlannedBuffer weights{nullptr, MemoryCategory::weights, member.needs};
  needs.add({&weights, 1});
  MemoryClaim claim = needs.claim(fmt::format("run {}", index), "do that");
  claim.shared_advice = ", or this";
  return claim;
}

// Returns for each member the names of the devices whose claims it must look at.
std::vector<std::vector<std::string>> meet(const std::vector<Claimant>& members) {
  const auto store = comm::make_local_store();
  std::vector<std::vector<std::string>> names(members.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([&, i] {
      const int index = static_cast<int>(i);
      const ClaimMeeting meeting{.store = store.get(),
                                 .index = index,
                                 .devices = static_cast<int>(members.size()),
                                 .timeout_s = 30};
      for (const MemoryClaim& claim :
           exchange_claims(meeting, [&] { return claim_of(members[i], index); })) {
        names[i].push_back(claim.device);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return names;
}

TEST(ClaimExchange, TellsOfThoseWithTheSameMemory) {
  EXPECT_THAT(
      meet({{"a", 1000, 64}, {"b", 500, 128}, {"a", 800, 256}, {"a", 900, 512}}),
      ElementsAre(ElementsAre("cpu:0", "cpu:2", "cpu:3"), ElementsAre("cpu:1"),
                  ElementsAre("cpu:0", "cpu:2", "cpu:3"), ElementsAre("cpu:0", "cpu:2", "cpu:3")));
}

TEST(ClaimExchange, DevicesWithoutAPoolShareNothing) {
  EXPECT_THAT(meet({{"", 1000, 64}, {"", 1000, 64}}),
              ElementsAre(ElementsAre("cpu:0"), ElementsAre("cpu:1")));
}

TEST(ClaimExchange, HandsOverTheWholeClaim) {
  const auto store = comm::make_local_store();
  const auto meeting = [&](int index) {
    return ClaimMeeting{.store = store.get(), .index = index, .devices = 2, .timeout_s = 30};
  };
  const MemoryClaim told = claim_of({"a", 1000, 64}, 0);
  std::thread other([&] { exchange_claims(meeting(0), [&] { return told; }); });
  const auto claims = exchange_claims(meeting(1), [] { return claim_of({"a", 800, 128}, 1); });
  other.join();
  ASSERT_EQ(claims.size(), 2);
  EXPECT_EQ(claims[0].what, told.what);
  EXPECT_EQ(claims[0].advice, told.advice);
  EXPECT_EQ(claims[0].bytes, told.bytes);
  EXPECT_EQ(claims[0].free_bytes, told.free_bytes);
  EXPECT_EQ(claims[0].by_category, told.by_category);
}

TEST(ClaimExchange, NeedNotBeWaitedForWhenOthersCannotCome) {
  const auto store = comm::make_local_store();
  const ClaimMeeting meeting{
      .store = store.get(), .devices = 2, .timeout_s = 600, .check_peers = [] {
        throw CommError("rank 1 has died");
      }};
  EXPECT_THROW(exchange_claims(meeting, [] { return MemoryClaim(); }), CommError);
}

TEST(ClaimExchange, EndsAtItsDeadline) {
  const auto store = comm::make_local_store();
  try {
    exchange_claims({.store = store.get(), .devices = 2, .timeout_s = 0},
                    [] { return MemoryClaim(); });
    FAIL() << "came";
  } catch (const CommTimeout& error) {
    EXPECT_THAT(error.what(), HasSubstr("device 1 of 2 has not planned within 0 s (--timeout)"));
  }
}

// A store over TCP drops the connection of a wait that ends without an answer.
TEST(ClaimExchange, WaitsForALateDeviceOverTcp) {
  const auto serving = comm::make_tcp_store_server({.secret = "s"});
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      const auto store = comm::connect_tcp_store({.port = serving->port(), .secret = "s"});
      if (index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const auto claims = exchange_claims(
          {.store = store.get(), .index = index, .devices = 2, .timeout_s = 30}, [&] {
            return claim_of({"a", 1000, 64}, index);
          });
      EXPECT_EQ(claims.size(), 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MemoryClaims, AreCheckedTogether) {
  const std::vector<MemoryClaim> fit = {claim_of({"a", 1024, 512}, 0),
                                        claim_of({"a", 2048, 512}, 1)};
  EXPECT_NO_THROW(check_claims(fit));
  const std::vector<MemoryClaim> unknown = {claim_of({"a", 0, 512}, 0)};
  EXPECT_NO_THROW(check_claims(unknown));
}

TEST(MemoryClaims, TheOneThatNeedsMostSpeaks) {
  const std::vector<MemoryClaim> claims = {
      claim_of({"a", 1024, 256}, 0), claim_of({"a", 1000, 512}, 1), claim_of({"a", 2048, 256}, 2)};
  try {
    check_claims(claims);
    FAIL() << "they fit";
  } catch (const ConfigError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("run 1 needs 512 more bytes of cpu:1, and 2 other devices of the run 512 "
                  "bytes of the same memory, which has 1000 free; do that, or this\n  weights "));
  }
}

}  // namespace
}  // namespace ddpbench::bench
