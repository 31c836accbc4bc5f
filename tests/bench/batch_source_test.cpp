// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Each step must find the samples that the sampler deals out, for every interleaving of device and
// host.
#include "bench/feed/batch_source.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/runtime/cpu_device.h"
#include "tests/bench/queued_device.h"

namespace ddpbench::bench {
namespace {

constexpr std::int64_t kSamples = 37, kBatch = 5;
constexpr std::size_t kPixels = 4;

// Sample i has the label i and pixels of the value i.
class Samples {
 public:
  Samples() : images_(kSamples * kPixels), labels_(kSamples) {
    for (std::size_t i = 0; i < kSamples; ++i) {
      labels_[i] = static_cast<std::uint16_t>(i);
      for (std::size_t p = 0; p < kPixels; ++p) {
        images_[i * kPixels + p] = static_cast<std::uint8_t>(i);
      }
    }
    split_ = {images_, labels_, kSamples, kPixels};
  }
  const data::Split& split() const { return split_; }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint16_t> labels_;
  data::Split split_;
};

data::ShardedSampler sampler() {
  return data::ShardedSampler({.samples = kSamples, .global_batch = kBatch, .seed = 3});
}

BatchSourceOptions source_options(int workers) {
  BatchSourceOptions options;
  options.samples = kBatch;
  options.image_bytes = kPixels * sizeof(float);
  options.loader.normalization = {{0.0}, {1.0 / 255}};  // pixels keep their values
  options.loader.workers = workers;
  return options;
}

std::vector<std::int32_t> expected_labels(std::int64_t epochs) {
  auto order = sampler();
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> batch(kBatch);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    order.begin_epoch(epoch);
    for (std::int64_t step = 0; step < order.steps_per_epoch(); ++step) {
      order.batch(step, 0, batch);
      labels.insert(labels.end(), batch.begin(), batch.end());
    }
  }
  return labels;
}

// Returns what steps on `stream` find; `queue` queues a step's work there.
template <typename Queue>
std::vector<std::int32_t> train(BatchSource& source, Stream& stream, std::int64_t epochs,
                                Queue queue) {
  std::vector<std::int32_t> seen;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    source.begin_epoch(epoch, sampler().steps_per_epoch());
    for (std::int64_t step = 0; step < sampler().steps_per_epoch(); ++step) {
      const StepInput input = source.next(stream);
      queue([input, &seen] {
        for (std::int64_t i = 0; i < kBatch; ++i) {
          seen.push_back(input.labels[i]);
          EXPECT_NEAR(input.images[i * static_cast<std::int64_t>(kPixels)],
                      static_cast<float>(input.labels[i]), 1e-3);
        }
      });
      source.consumed(stream);
    }
  }
  stream.synchronize();
  return seen;
}

class LoaderSource : public testing::TestWithParam<int> {};  // loader workers

TEST_P(LoaderSource, FeedsADeviceThatReadsTheHostsMemory) {
  const Samples samples;
  const auto device = make_cpu_device({});
  const auto source =
      make_loader_source(*device, samples.split(), sampler(), source_options(GetParam()));
  const auto stream = device->make_stream();
  EXPECT_EQ(train(*source, *stream, 3, [](const auto& step) { step(); }), expected_labels(3));
}

TEST_P(LoaderSource, FeedsADeviceThatWorksOnItsOwn) {
  const Samples samples;
  for (unsigned seed = 0; seed < 50; ++seed) {
    test::QueuedDevice device(seed);
    const auto source =
        make_loader_source(device, samples.split(), sampler(), source_options(GetParam()));
    const auto stream = device.make_stream();
    const auto queue = [&](std::function<void()> step) {
      test::queue_work(*stream, std::move(step));
    };
    ASSERT_EQ(train(*source, *stream, 3, queue), expected_labels(3)) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderSource, testing::Values(0, 1, 2));

// Both ways to assemble a batch give the same bits.
TEST(ResidentSource, GivesWhatTheLoaderGives) {
  const Samples samples;
  const auto device = make_cpu_device({});
  const auto backend = ops::make_reference_backend();
  BatchSourceOptions options = source_options(1);
  options.loader.normalization = {{0.1307}, {0.3081}};
  options.loader.shards = {1, 0};
  const data::ShardedSampler two(
      {.samples = kSamples, .global_batch = kBatch + 1, .shards = 2, .seed = 3});
  options.samples = kBatch + 1;
  const auto loader = make_loader_source(*device, samples.split(), two, options);
  const auto resident = make_resident_source(*device, *backend, samples.split(), two, options);
  const auto stream = device->make_stream();
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader->begin_epoch(epoch, two.steps_per_epoch());
    resident->begin_epoch(epoch, two.steps_per_epoch());
    for (std::int64_t step = 0; step < two.steps_per_epoch(); ++step) {
      const StepInput a = loader->next(*stream), b = resident->next(*stream);
      const std::size_t samples_in_batch = options.samples;
      EXPECT_EQ(std::vector(a.labels, a.labels + samples_in_batch),
                std::vector(b.labels, b.labels + samples_in_batch));
      EXPECT_EQ(std::vector(a.images, a.images + samples_in_batch * kPixels),
                std::vector(b.images, b.images + samples_in_batch * kPixels));
    }
  }
  EXPECT_THROW(resident->next(*stream), InternalError);
}

// Where a label is ignored, each batch has the weight of the others, on both ways.
TEST(ResidentSource, GivesTheWeightThatTheLoaderGives) {
  const Samples samples;
  const auto device = make_cpu_device({});
  const auto backend = ops::make_reference_backend();
  BatchSourceOptions options = source_options(1);
  options.loader.ignored_label = 7;  // of one sample
  const auto loader = make_loader_source(*device, samples.split(), sampler(), options);
  const auto resident =
      make_resident_source(*device, *backend, samples.split(), sampler(), options);
  const auto stream = device->make_stream();
  const std::int64_t steps = sampler().steps_per_epoch();
  loader->begin_epoch(1, steps);
  resident->begin_epoch(1, steps);
  int with_the_label = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const StepInput a = loader->next(*stream), b = resident->next(*stream);
    ASSERT_NE(a.valid_weight, nullptr);
    ASSERT_NE(b.valid_weight, nullptr);
    const bool has_it = std::count(a.labels, a.labels + kBatch, 7) > 0;
    with_the_label += has_it ? 1 : 0;
    EXPECT_FLOAT_EQ(*a.valid_weight, has_it ? 5.0F / 4 : 1);
    EXPECT_EQ(*a.valid_weight, *b.valid_weight);
  }
  EXPECT_GE(with_the_label, 1);
}

TEST(LoaderSourceWeights, AreCopiedToADeviceThatWorksOnItsOwn) {
  const Samples samples;
  BatchSourceOptions options = source_options(1);
  options.loader.ignored_label = 7;
  for (unsigned seed = 0; seed < 20; ++seed) {
    test::QueuedDevice device(seed);
    const auto source = make_loader_source(device, samples.split(), sampler(), options);
    const auto stream = device.make_stream();
    source->begin_epoch(0, sampler().steps_per_epoch());
    for (std::int64_t step = 0; step < sampler().steps_per_epoch(); ++step) {
      const StepInput input = source->next(*stream);
      test::queue_work(*stream, [input] {
        const bool has_it = std::count(input.labels, input.labels + kBatch, 7) > 0;
        EXPECT_FLOAT_EQ(*input.valid_weight, has_it ? 5.0F / 4 : 1);
      });
      source->consumed(*stream);
    }
    stream->synchronize();
  }
}

TEST(LoaderSourceEnd, RefusesAStepBeyondTheEpoch) {
  const Samples samples;
  const auto device = make_cpu_device({});
  const auto source = make_loader_source(*device, samples.split(), sampler(), source_options(1));
  const auto stream = device->make_stream();
  source->begin_epoch(0, 1);
  source->next(*stream);
  EXPECT_THROW(source->next(*stream), InternalError);
}

// A copy waits for a step that never ends: the device gives no slot back.
TEST(LoaderSourceOnAHungDevice, EndsAtTheDeadline) {
  const Samples samples;
  test::QueuedDevice device(1);
  const auto stream = device.make_stream(), never = device.make_stream();
  const auto gate = device.make_event();
  test::queue_work_after_nothing(*never);
  never->record(*gate);
  BatchSourceOptions options = source_options(1);
  options.wait =
      std::make_shared<DeviceWait>(DeviceWaitOptions{.device = "queued:0", .limit_s = 0.01});
  const auto source = make_loader_source(device, samples.split(), sampler(), options);
  source->begin_epoch(0, sampler().steps_per_epoch());
  stream->wait(*gate);
  try {
    for (std::int64_t step = 0; step < sampler().steps_per_epoch(); ++step) {
      source->next(*stream);
      source->consumed(*stream);
    }
    FAIL() << "all batches came";
  } catch (const CommTimeout& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("waited 0.01 s for the copy of a batch on queued:0"));
  }
}  // the source's destructor does not wait for the copies either

}  // namespace
}  // namespace ddpbench::bench
