// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The search for the largest batch, and sizes of memory as people write them.
#include "bench/run/fit.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

struct Found {
  std::int64_t batch = 0;
  int plans = 0;
};
template <typename Share>
Found search(Share share) {
  Found found;
  found.batch = largest_batch([&](std::int64_t batch) {
    ++found.plans;
    return share(static_cast<double>(batch));
  });
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

TEST(LargestBatch, TakesFewPlansWhereMemoryIsNearlyLinear) {
  for (const double limit : {3.0, 17.0, 100.0, 812.0, 5000.0, 333333.0}) {
    const auto rounded = [&](double b) {
      return 0.1 + 0.9 * (b / limit) + 1e-6 * static_cast<double>(static_cast<int>(b) % 3);
    };
    const Found found = search(rounded);
    EXPECT_LE(rounded(static_cast<double>(found.batch)), 1) << limit;
    EXPECT_GT(rounded(static_cast<double>(found.batch + kBatchStep)), 1) << limit;
    EXPECT_LE(found.plans, 8) << limit;
  }
}

// Memory in steps defeats straight lines; the middle of the bracket helps.
TEST(LargestBatch, EndsForSteps) {
  const Found found = search([](double b) { return b < 700 ? 0.001 : b < 90000 ? 0.002 : 5; });
  EXPECT_EQ(found.batch, 89992);
  EXPECT_LE(found.plans, 60);
}

TEST(MemorySize, ReadsUnits) {
  EXPECT_EQ(memory_size("16GiB"), 16ULL << 30);
  EXPECT_EQ(memory_size("16G"), 16ULL << 30);
  EXPECT_EQ(memory_size("80GB"), 80'000'000'000ULL);
  EXPECT_EQ(memory_size("1.5MiB"), 3ULL << 19);
  EXPECT_EQ(memory_size("4096"), 4096U);
  EXPECT_EQ(memory_size("2TB"), 2'000'000'000'000ULL);
}

TEST(MemorySize, RefusesOtherText) {
  for (const char* text :
       {"", "GiB", "16 GiB", "-1G", "0", "16gib", "1e30", "nan", "inf", "0x10"}) {
    EXPECT_THAT([&] { memory_size(text); },
                testing::ThrowsMessage<ConfigError>(testing::HasSubstr("16GiB, 80GB or 512MiB")))
        << text;
  }
}

}  // namespace
}  // namespace ddpbench::bench
