// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches: contents, order, and what happens when workers are slow or fail, or an epoch is left.
#include "datasets/loader.h"
#include "base/clock.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "base/error.h"
#include "tests/base/allocation_count.h"

namespace ddpbench::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kSamples = 103;  // prime: no batch divides it
constexpr std::size_t kSampleBytes = 37;
constexpr double kMean = 0.1307, kDeviation = 0.3081;
const Normalization kNormalization = {.mean = {kMean}, .std = {kDeviation}};
// byte * scale reaches 3.3, the offset is 0.42 and the result at most 2.9; each of the two
// constants, the product and the sum is rounded once, by at most 2^-24 of its size: 5.6e-7
// together.
constexpr float kTolerance = 6e-7F;

class Samples {
 public:
  Samples() : images_(kSamples * kSampleBytes), labels_(kSamples) {
    for (std::size_t i = 0; i < images_.size(); ++i) {
      images_[i] = static_cast<std::uint8_t>(i * i % 256);
    }
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      labels_[i] = static_cast<std::uint16_t>(i % 1000);
    }
  }
  Split split() const { return {images_, labels_, kSamples, kSampleBytes}; }

  void expect_sample(std::int64_t index, const float* image, std::int32_t label) const {
    const auto i = static_cast<std::size_t>(index);
    EXPECT_EQ(label, labels_[i]);
    for (std::size_t p = 0; p < kSampleBytes; ++p) {
      const double expected = (images_[i * kSampleBytes + p] / 255.0 - kMean) / kDeviation;
      ASSERT_NEAR(image[p], expected, kTolerance) << "sample " << index << " pixel " << p;
    }
  }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint16_t> labels_;
};

class Buffers {
 public:
  Buffers(std::size_t count, std::int64_t samples)
      : images_(count, std::vector<float>(static_cast<std::size_t>(samples) * kSampleBytes)),
        labels_(count, std::vector<std::int32_t>(static_cast<std::size_t>(samples))) {}
  std::vector<BatchBuffer> views() {
    std::vector<BatchBuffer> buffers;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      buffers.push_back({images_[i].data(), labels_[i].data()});
    }
    return buffers;
  }

 private:
  std::vector<std::vector<float>> images_;
  std::vector<std::vector<std::int32_t>> labels_;
};

// A loader over the samples above: global batch 12 out of three shards.
class LoaderUnderTest {
 public:
  explicit LoaderUnderTest(int workers, std::size_t buffers = 3, std::vector<int> shards = {1},
                           double sample_cost_s = 0)
      : shards_(std::move(shards)),
        buffers_(buffers, 4 * std::ssize(shards_)),
        loader_(samples_.split(), sampler_,
                {.normalization = kNormalization,
                 .workers = workers,
                 .worker_cores = {},
                 .shards = shards_,
                 .buffers = buffers_.views(),
                 .sample_cost_s = sample_cost_s}) {}

  Loader* operator->() { return &loader_; }

  // Begins the epoch, and takes and checks `steps` batches of it.
  void begin_and_take(std::int64_t epoch, std::int64_t steps) {
    sampler_.begin_epoch(epoch);
    loader_.begin_epoch(epoch, 1000);
    for (std::int64_t step = 0; step < steps; ++step) expect_batch(step, loader_.next());
  }

  void begin_at(std::int64_t epoch, std::int64_t first, std::int64_t steps) {
    sampler_.begin_epoch(epoch);
    loader_.begin_epoch(epoch, steps, first);
  }

  void expect_batch(std::int64_t step, const BatchBuffer* batch) {
    ASSERT_NE(batch, nullptr) << step;
    std::vector<std::int64_t> indices(4);
    std::size_t at = 0;
    for (const int shard : shards_) {
      sampler_.batch(step, shard, indices);
      for (const std::int64_t index : indices) {
        samples_.expect_sample(index, batch->images + at * kSampleBytes, batch->labels[at]);
        ++at;
      }
    }
  }

  std::int64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }

 private:
  Samples samples_;
  ShardedSampler sampler_{{.samples = kSamples, .global_batch = 12, .shards = 3, .seed = 5}};
  std::vector<int> shards_;
  Buffers buffers_;
  Loader loader_;
};

// Training that goes on in the middle of an epoch.
TEST(Loader, BeginsAnEpochAtALaterStep) {
  for (const int workers : {0, 2}) {
    LoaderUnderTest loader(workers);
    loader.begin_and_take(1, 2);
    loader.begin_at(2, 4, 3);
    for (const std::int64_t step : {4, 5, 6}) loader.expect_batch(step, loader->next());
    EXPECT_EQ(loader->next(), nullptr);
  }
}

class LoaderOfWorkers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Loader, LoaderOfWorkers, testing::Values(0, 1, 3),
                         [](const auto& test) { return "Workers" + std::to_string(test.param); });

TEST_P(LoaderOfWorkers, DeliversEveryBatchInOrderAndNormalised) {
  LoaderUnderTest loader(GetParam());
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    loader.begin_and_take(epoch, loader.steps_per_epoch());
    EXPECT_EQ(loader->next(), nullptr);
    EXPECT_EQ(loader->next(), nullptr);
  }
}

TEST_P(LoaderOfWorkers, PutsTheShardsOfABatchOneBehindTheOther) {
  LoaderUnderTest loader(GetParam(), 2, {0, 1, 2});
  loader.begin_and_take(0, loader.steps_per_epoch());
}

TEST_P(LoaderOfWorkers, WorksWithASingleBuffer) {
  LoaderUnderTest loader(GetParam(), 1);
  loader.begin_and_take(0, loader.steps_per_epoch());
  EXPECT_EQ(loader->next(), nullptr);
}

TEST_P(LoaderOfWorkers, KeepsItsOrderWhenSamplesAreCostly) {
  LoaderUnderTest loader(GetParam(), 3, {2, 0}, 5e-4);
  loader.begin_and_take(0, loader.steps_per_epoch());
  EXPECT_EQ(loader->next(), nullptr);
}

TEST_P(LoaderOfWorkers, StopsAfterTheStepsAskedFor) {
  LoaderUnderTest loader(GetParam());
  loader->begin_epoch(0, 2);
  EXPECT_NE(loader->next(), nullptr);
  EXPECT_NE(loader->next(), nullptr);
  EXPECT_EQ(loader->next(), nullptr);
  loader->begin_epoch(0, 0);
  EXPECT_EQ(loader->next(), nullptr);
}

TEST_P(LoaderOfWorkers, AbandonsAnEpochInTheMiddle) {
  LoaderUnderTest loader(GetParam());
  for (std::int64_t round = 0; round < 50; ++round) loader.begin_and_take(round, round % 5);
  loader.begin_and_take(7, loader.steps_per_epoch());
}

TEST_P(LoaderOfWorkers, LeavesTheCallersBatchAlone) {
  LoaderUnderTest loader(GetParam(), 2);
  loader.begin_and_take(0, 0);
  for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const BatchBuffer* batch = loader->next();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // for workers to run ahead
    loader.expect_batch(step, batch);
  }
}

TEST_P(LoaderOfWorkers, DoesNotAllocateOnceWarm) {
  LoaderUnderTest loader(GetParam());
  const auto run = [&](std::int64_t epoch) {
    loader->begin_epoch(epoch, 1000);
    while (loader->next() != nullptr) {
    }
  };
  run(0);
  const std::int64_t before = ddpbench::test::allocation_count();
  for (std::int64_t epoch = 1; epoch < 20; ++epoch) run(epoch);
  // Each worker makes room for its indices when its thread first runs, which may be late.
  EXPECT_LE(ddpbench::test::allocation_count() - before, GetParam());
}

TEST(Loader, SpendsProcessorTimeOnEachSampleWhereItIsAssembled) {
  constexpr double kCost = 2e-3;
  LoaderUnderTest loader(0, 1, {0, 2}, kCost);
  const double begin_s = thread_cpu_s();
  loader.begin_and_take(0, 2);
  EXPECT_GE(thread_cpu_s() - begin_s, 2 * 8 * kCost);
}

TEST(Loader, DoesNotFinishACostlyBatchThatNobodyWaitsFor) {
  LoaderUnderTest loader(2, 3, {0, 1, 2}, 1);
  const std::clock_t begin = std::clock();  // processor time of all threads
  loader->begin_epoch(0, 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // for workers to begin
  loader->begin_epoch(1, 0);
  EXPECT_EQ(loader->next(), nullptr);
  // Each of the two workers ends the sample that it is at, and none of the other 11.
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 4);
}

TEST(Loader, EndsInTheMiddleOfAnEpoch) {
  for (int round = 0; round < 20; ++round) {
    LoaderUnderTest loader(3);
    loader.begin_and_take(0, round % 4);
  }
  const LoaderUnderTest never_begun(2);
}

TEST(Loader, RethrowsTheErrorOfAWorker) {
  const Samples samples;
  Buffers buffers(2, 4);
  Loader loader(samples.split(), ShardedSampler({.samples = kSamples, .global_batch = 4}),
                {.normalization = kNormalization,
                 .workers = 2,
                 .worker_cores = {1 << 20},  // no processor has this number
                 .shards = {0},
                 .buffers = buffers.views()});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.begin_epoch(epoch, 10);
    EXPECT_THAT([&] { loader.next(); },
                ThrowsMessage<UnavailableError>(HasSubstr("processors 1048576")));
  }
}

TEST(Loader, RefusesOptionsThatDoNotFit) {
  const Samples samples;
  Buffers buffers(1, 4);
  const auto construct = [&](const SamplerOptions& sampling, const LoaderOptions& options) {
    const Loader loader(samples.split(), ShardedSampler(sampling), options);
  };
  const SamplerOptions sampling = {.samples = kSamples, .global_batch = 4};
  const LoaderOptions good = {.normalization = kNormalization,
                              .workers = 1,
                              .worker_cores = {},
                              .shards = {0},
                              .buffers = buffers.views()};
  EXPECT_NO_THROW(construct(sampling, good));
  EXPECT_THROW(construct({.samples = kSamples + 1, .global_batch = 4}, good), InternalError);
  LoaderOptions options = good;
  options.shards = {1};
  EXPECT_THROW(construct(sampling, options), InternalError);
  options.shards = {};
  EXPECT_THROW(construct(sampling, options), InternalError);
  options = good;
  options.buffers = {};
  EXPECT_THROW(construct(sampling, options), InternalError);
  options.buffers = {BatchBuffer{}};
  EXPECT_THROW(construct(sampling, options), InternalError);
  options = good;
  options.workers = -1;
  EXPECT_THROW(construct(sampling, options), InternalError);
  options = good;
  options.normalization.std = {0};
  EXPECT_THROW(construct(sampling, options), InternalError);
  options.normalization = {.mean = {0, 0}, .std = {1}};
  EXPECT_THROW(construct(sampling, options), InternalError);
  options = good;
  options.augment = true;  // images without a width
  EXPECT_THROW(construct(sampling, options), InternalError);
}

TEST(AssembleRange, WritesConsecutiveSamples) {
  const Samples samples;
  Buffers buffers(1, kSamples);
  const BatchBuffer out = buffers.views().front();
  assemble_range(samples.split(), kNormalization, 96, 7, out);
  for (std::size_t i = 0; i < 7; ++i) {
    samples.expect_sample(96 + static_cast<std::int64_t>(i), out.images + i * kSampleBytes,
                          out.labels[i]);
  }
  EXPECT_NO_THROW(assemble_range(samples.split(), kNormalization, kSamples, 0, out));
  EXPECT_THROW(assemble_range(samples.split(), kNormalization, 97, 7, out), InternalError);
  EXPECT_THROW(assemble_range(samples.split(), kNormalization, -1, 1, out), InternalError);
}

}  // namespace
}  // namespace ddpbench::data
