// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The search for the largest batch, what counts against which memory, and sizes of memory as people
// write them.
#include <gmock/gmock.h>

#include "base/error.h"
#include "bench/rank/run_memory.h"
#include "bench/run/session.h"
#include "kernels/ops/op.h"

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;

struct Found {
  std::int64_t batch = 0, smallest = 0;
  int plans = 0;
};
template <typename Share>
Found search(Share share) {
  Found found;
  const BatchRange range = largest_batch([&](std::int64_t batch) {
    ++found.plans;
    return share(static_cast<double>(batch));
  });
  found.batch = range.largest;
  found.smallest = range.smallest;
  return found;
}

TEST(LargestBatch, IsTheLastConsideredOneThatFits) {
  EXPECT_EQ(search([](double b) { return b / 1000; }).batch, 1000);
  EXPECT_EQ(search([](double b) { return b / 999; }).batch, 992);
  EXPECT_EQ(search([](double b) { return b / 7.5; }).batch, 7);
  EXPECT_EQ(search([](double b) { return b / 15; }).batch, 8);
  EXPECT_EQ(search([](double b) { return b / 16; }).batch, 16);
  EXPECT_EQ(search([](double b) { return 0.5 + b / 123456; }).batch, 61728);
  EXPECT_EQ(search([](double b) { return b; }).batch, 1);
}

TEST(LargestBatch, IsNoneWhereOneSampleIsTooMuch) {
  const Found found = search([](double b) { return 1 + b; });
  EXPECT_EQ(found.batch, 0);
  EXPECT_EQ(found.plans, 1);
}

TEST(LargestBatch, EndsWhereThereIsNoLimit) {
  EXPECT_EQ(search([](double) { return 0.5; }).batch, kLargestFit);
  EXPECT_EQ(search([](double b) { return b / 1e12; }).batch, kLargestFit);
}

TEST(LargestBatch, TakesSomeDozenPlans) {
  for (const double limit : {3.0, 17.0, 100.0, 812.0, 5000.0, 333333.0}) {
    const auto rounded = [&](double b) {
      return 0.1 + 0.9 * (b / limit) + 1e-6 * static_cast<double>(static_cast<int>(b) % 3);
    };
    const Found found = search(rounded);
    EXPECT_LE(rounded(static_cast<double>(found.batch)), 1) << limit;
    EXPECT_GT(rounded(static_cast<double>(found.batch + kBatchStep)), 1) << limit;
    EXPECT_LE(found.plans, 36) << limit;
  }
}

TEST(LargestBatch, EndsForSteps) {
  const Found found = search([](double b) { return b < 700 ? 0.001 : b < 90000 ? 0.002 : 5; });
  EXPECT_EQ(found.batch, 89992);
  EXPECT_LE(found.plans, 60);
}

// 40 bytes a sample of 10^6, and kernels that count to 5000.
TEST(LargestBatch, EndsWhereNoKernelTakesTheTensors) {
  const Found found = search([](double b) {
    if (b > 5003) throw ops::BatchTooLarge("add: 2147483648 elements");
    return 40e-6 * b;
  });
  EXPECT_EQ(found.batch, 5000);
  EXPECT_LE(found.plans, 24);
}

TEST(LargestBatch, BeginsWhereTheNetworkCanBePlanned) {
  const auto from = [](double least) {
    return [least](double b) {
      if (b < least) throw ops::BatchTooSmall("batch_norm2d: one value a channel");
      return b / 100;
    };
  };
  EXPECT_EQ(search(from(1)).smallest, 1);
  EXPECT_EQ(search(from(2)).smallest, 2);
  EXPECT_EQ(search(from(2)).batch, 96);
  EXPECT_EQ(search(from(8)).smallest, 8);
  EXPECT_THROW(search(from(9)), ops::BatchTooSmall);
  const Found none = search([&](double b) { return from(2)(b) + 1; });
  EXPECT_EQ(none.batch, 0);
  EXPECT_EQ(none.smallest, 2);
}

PlannedDevice planned(const std::string& role, int count, std::size_t bytes, bool on_host = false) {
  PlannedDevice device{
      .role = role, .count = count, .on_host = on_host, .bytes = bytes, .by_category = {}};
  device.by_category[0] = bytes;
  return device;
}

TEST(Fullness, IsOfEachDeviceThatHasMemoryOfItsOwn) {
  const FitMemories memories{.device_bytes = 100};
  const auto all = fullness_of(
      {planned("the primary device", 1, 90), planned("another device", 3, 40)}, memories);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(fullest(all).role, "the primary device");
  EXPECT_DOUBLE_EQ(all[0].share(), 0.9);
  EXPECT_DOUBLE_EQ(all[1].share(), 0.4);
  EXPECT_EQ(all[1].bytes, 40U);
}

TEST(Fullness, IsOfAllDevicesThatShareTheirMemory) {
  const FitMemories memories{.device_bytes = 1000, .are_shared = true};
  const auto all =
      fullness_of({planned("the device", 2, 100), planned("a server", 3, 50)}, memories);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].role, "all devices together");
  EXPECT_EQ(all[0].bytes, 350U);
  EXPECT_EQ(all[0].by_category[0], 350U);
  EXPECT_EQ(fullness_of({planned("the device", 1, 100)}, memories)[0].role, "the device");
}

// Servers on CPU devices may need more than a GPU has.
TEST(Fullness, CountsServersOnTheHostAgainstItsMemory) {
  const FitMemories memories{.device_bytes = 100, .host_bytes = 10000};
  const std::vector<PlannedDevice> run = {planned("the device", 2, 60),
                                          planned("a server", 3, 500, true)};
  const auto all = fullness_of(run, memories);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(fullest(all).role, "the device");
  EXPECT_EQ(all[1].role, "the servers on the host");
  EXPECT_DOUBLE_EQ(all[1].share(), 0.15);
  EXPECT_EQ(all[1].limit_bytes, 10000U);
  const FitMemories small{.device_bytes = 100, .host_bytes = 1500};
  EXPECT_EQ(fullest(fullness_of(run, small)).role, "the servers on the host");
}

TEST(MemorySize, ReadsUnits) {
  EXPECT_EQ(asked_memory(""), std::nullopt);
  EXPECT_EQ(asked_memory("16GiB"), 16ULL << 30);
  EXPECT_EQ(asked_memory("16G"), 16ULL << 30);
  EXPECT_EQ(asked_memory("80GB"), 80'000'000'000ULL);
  EXPECT_EQ(asked_memory("1.5MiB"), 3ULL << 19);
  EXPECT_EQ(asked_memory("4096"), 4096U);
  EXPECT_EQ(asked_memory("2TB"), 2'000'000'000'000ULL);
}

TEST(MemorySize, RefusesOtherText) {
  for (const char* text : {"GiB", "16 GiB", "-1G", "0", "16gib", "1e30", "nan", "inf", "0x10"}) {
    EXPECT_THAT([&] { asked_memory(text); },
                testing::ThrowsMessage<ConfigError>(HasSubstr("16GiB, 80GB or 512MiB")))
        << text;
  }
}

}  // namespace
}  // namespace ddpbench::bench
