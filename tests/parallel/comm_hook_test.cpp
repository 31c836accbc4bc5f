// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm_hook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/comm/shm/shm.h"
#include "parallel/strategies.h"
#include "tests/ops/encoding_cases.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessResult;
using test::run_strategy;

constexpr int kHookedReplicas = 3;
const std::vector<std::string> kHooks = {"bf16", "fp16", "int8", "topk:5", "topk:100"};

StrategyConfig hooked(const std::string& hook) {
  StrategyConfig config;
  config.strategy = "ddp";
  config.replicas = kHookedReplicas;
  config.per_device_batch = 4;
  config.optimizer = {.lr = 0.05, .momentum = 0.9};
  config.first_bucket_bytes = 256;
  config.bucket_cap_bytes = 4096;
  config.comm_hook = hook;
  return config;
}

// Which ranks give which gradients in which step.
using Given = std::function<float(std::size_t rank, std::size_t step, std::size_t i)>;

// Returns the means of all steps, [step][element] of rank 0, and checks that all ranks have the
// same bits.
std::vector<std::vector<float>> exchange(const std::string& hook, std::size_t count, int steps,
                                         const Given& given) {
  auto worlds = comm::make_thread_shm(kHookedReplicas, {.timeout_s = 20, .thread_cores = {}});
  std::vector<std::vector<std::vector<float>>> means(kHookedReplicas);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kHookedReplicas; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = make_cpu_device({.index = static_cast<int>(rank), .cores = {}});
      device->bind_calling_thread();
      const auto backend = ops::make_onednn_backend(*device);
      const auto stream = device->make_stream();
      StrategyContext context;
      context.devices = {device.get()};
      context.backends = {backend.get()};
      context.world = worlds[rank].get();
      const Buffer gradients =
          device->allocate(count * sizeof(float), MemoryCategory::gradients, Sharing::mappable);
      const std::size_t first = gradients.bytes() / 128 * 64;
      const std::vector<Bucket> buckets = {{1, 0, first}, {2, first, gradients.bytes() - first}};
      CommHook coder(*encoding_of(hook), context);
      coder.open(buckets);
      for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step) {
        const auto values = gradients.view().as<float>();
        for (std::size_t i = 0; i < count; ++i) values[i] = given(rank, step, i);
        std::vector<comm::Work> started;
        const auto part = [&](std::size_t b) {
          return gradients.view().slice(buckets[b].offset_bytes, buckets[b].bytes);
        };
        for (std::size_t b = 0; b < 2; ++b) {
          started.push_back(coder.start(b, part(b), {.after = stream.get()}));
        }
        for (std::size_t b = 0; b < 2; ++b) {
          started[b].wait(*stream);
          coder.decode(b, *stream, part(b));
        }
        means[rank].emplace_back(values.begin(), values.end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& own : means) EXPECT_EQ(own, means[0]);
  return means[0];
}

constexpr std::size_t kGiven = 12000;  // elements, in two buckets

float noise(std::size_t rank, std::size_t step, std::size_t i) {
  const double at = static_cast<double>(i * 7919 + rank * 104729 + step * 1299709);
  return static_cast<float>(std::sin(at) * std::exp(2 * std::sin(at / 17)));
}

TEST(CommHook, GivesAllRanksTheMeanOfWhatPlainLoopsEncode) {
  for (const std::string& hook : kHooks) {
    SCOPED_TRACE(hook);
    const ops::Encoding encoding = *encoding_of(hook);
    const auto got = exchange(hook, kGiven, 1, noise)[0];
    const std::size_t cut = kGiven * sizeof(float) / 128 * 16;
    std::vector<double> want(kGiven);
    for (std::size_t rank = 0; rank < kHookedReplicas; ++rank) {
      std::vector<double> first, second;
      for (std::size_t i = 0; i < kGiven; ++i) {
        const float share = noise(rank, 0, i) * (1.0F / kHookedReplicas);
        (i < cut ? first : second).push_back(share);
      }
      std::vector<double> sent = ops::testing::plain_roundtrip(encoding, first);
      const auto rest = ops::testing::plain_roundtrip(encoding, second);
      sent.insert(sent.end(), rest.begin(), rest.end());
      for (std::size_t i = 0; i < kGiven; ++i) want[i] += sent[i];
    }
    // A cast's sums are rounded to its type. int8 may round each of the values the other way.
    const double largest = std::exp(2.0);
    const double tolerance = hook == "bf16"   ? 2 * largest / 256
                             : hook == "fp16" ? 2 * largest / 2048
                             : hook == "int8" ? largest / 127
                                              : 1e-5;
    double wrong = 0;
    for (std::size_t i = 0; i < kGiven; ++i) {
      ASSERT_NEAR(got[i], want[i], tolerance) << i;
      wrong += std::abs(got[i] - want[i]);
    }
    EXPECT_LT(wrong / kGiven, tolerance / 20);
  }
}

// What is not sent in a step comes later: the sums differ by what ranks still keep, which does not
// grow with the steps.
TEST(CommHook, SendsInTheEndWhatItKept) {
  for (const std::string hook : {"int8", "topk:5"}) {
    for (const int steps : {1, 200}) {
      std::vector<double> lost(kGiven);
      const auto steady = [](std::size_t rank, std::size_t, std::size_t i) {
        return noise(rank, 0, i);
      };
      const auto means = exchange(hook, kGiven, steps, steady);
      double all = 0, missing = 0;
      for (std::size_t i = 0; i < kGiven; ++i) {
        double sent = 0, given = 0;
        for (const auto& mean : means) sent += mean[i];
        for (std::size_t r = 0; r < kHookedReplicas; ++r) given += noise(r, 0, i) / 3.0 * steps;
        all += given * given;
        missing += (sent - given) * (sent - given);
      }
      const double share = std::sqrt(missing / all);
      if (hook == "int8") {
        EXPECT_LT(share, 0.02 / steps);
      }
      if (hook == "topk:5" && steps == 1) {
        EXPECT_GT(share, 0.4);
      }
      if (hook == "topk:5" && steps == 200) {
        EXPECT_LT(share, 0.1);
      }
    }
  }
}

TEST(CommHook, TrainsNearlyAsDdpDoesWithEqualReplicas) {
  const nn::ModelSpec model = test::small_model();
  const auto start = test::starting_weights(model, 7);
  const auto exact = run_strategy(model, hooked("none"));
  for (const std::string& hook : kHooks) {
    SCOPED_TRACE(hook);
    const HarnessResult result = run_strategy(model, hooked(hook));
    for (const auto& weights : result.weights) {
      EXPECT_EQ(test::relative_error(start, weights, result.weights[0]), 0);
    }
    const double error = test::relative_error(start, result.weights[0], exact.weights[0]);
    const double most = hook == "bf16"     ? 0.02
                        : hook == "fp16"   ? 0.002
                        : hook == "int8"   ? 0.05
                        : hook == "topk:5" ? 1
                                           : 1e-5;
    EXPECT_LT(error, most);
    if (hook != "topk:100") {
      EXPECT_GT(error, most / 1000);
    }
  }
}

TEST(CommHook, ForgetsWhatItKeptWhenAllIsReset) {
  for (const std::string hook : {"int8", "topk:5"}) {
    const auto once = run_strategy(test::small_model(), hooked(hook));
    const auto again = run_strategy(test::small_model(), hooked(hook), {.reset_in_between = true});
    const auto start = test::starting_weights(test::small_model(), 7);
    EXPECT_EQ(test::relative_error(start, again.weights[0], once.weights[0]), 0);
  }
}

// The error's memory takes part in each pass that sends.
TEST(CommHook, TakesEveryPassOfAnAccumulatedStep) {
  const nn::ModelSpec model = test::small_model();
  const auto start = test::starting_weights(model, 7);
  StrategyConfig every = hooked("int8"), exact = hooked("none");
  every.accumulation_steps = exact.accumulation_steps = 3;
  every.sync_every_pass = true;
  const auto result = run_strategy(model, every), expected = run_strategy(model, exact);
  EXPECT_LT(test::relative_error(start, result.weights[0], expected.weights[0]), 0.05);
  EXPECT_EQ(test::relative_error(start, result.weights[1], result.weights[0]), 0);
}

class SentBytes final : public PhaseObserver {
 public:
  void begin(Phase, Stream&) override {}
  void end(Phase, Stream&) override {}
  void bucket(const BucketTimes& times) override { sum += times.bytes; }
  std::uint64_t sum = 0;
};

TEST(CommHook, TellsTheBytesOfItsBuckets) {
  const auto sent = [](const std::string& hook) {
    SentBytes bytes;
    run_strategy(test::small_model(), hooked(hook), {.steps = 1, .observer = &bytes});
    return bytes.sum;
  };
  EXPECT_EQ(2 * sent("bf16"), sent("none"));
  EXPECT_EQ(2 * sent("fp16"), sent("none"));
  EXPECT_LT(sent("int8"), sent("none") / 3);
  EXPECT_GT(sent("int8"), sent("none") / 4);
  EXPECT_NEAR(static_cast<double>(sent("topk:100")), 1.5 * static_cast<double>(sent("none")), 1);
  EXPECT_LT(sent("topk:5"), sent("none") / 10);
}

TEST(CommHook, IsRefusedWhereItIsUnknown) {
  EXPECT_FALSE(encoding_of("none"));
  EXPECT_EQ(encoding_of("topk:1")->kept, 41u);
  EXPECT_EQ(encoding_of("topk:0.025")->kept, 2u);
  for (const char* const hook : {"fp8", "topk", "topk:", "topk:0", "topk:0.001", "topk:101",
                                 "topk:-1", "topk:x", "topk:nan", "powersgd:0", ""}) {
    EXPECT_THROW(encoding_of(hook), ConfigError) << hook;
  }
}

}  // namespace
}  // namespace ddpbench
