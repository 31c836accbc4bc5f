// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm_hook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/comm/comm_module.h"
#include "parallel/gradient_exchange.h"
#include "parallel/strategies.h"
#include "tests/ops/encoding_cases.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessResult;
using test::run_strategy;

constexpr int kHookedReplicas = 3;
const std::vector<std::string> kHooks = {"bf16", "fp16", "int8", "topk:5", "topk:100"};
const std::vector<std::string> kAllHooks = {"bf16",   "fp16",     "int8",
                                            "topk:5", "topk:100", "powersgd:2"};

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

// The network's parameters and how they travel.
struct Travelling {
  nn::ParameterPlan plan;
  std::vector<Bucket> buckets;
};

Travelling in_two_buckets(std::size_t count) {
  const std::size_t bytes = (count * sizeof(float) + 63) / 64 * 64, first = bytes / 128 * 64;
  return {{}, {{1, 0, first}, {2, first, bytes - first}}};
}

// Parameters of these layouts, one behind the other, in buckets of at least `cap` bytes.
Travelling in_matrices(const std::vector<ops::TensorLayout>& layouts, std::size_t cap) {
  Travelling sent;
  for (const ops::TensorLayout& layout : layouts) {
    nn::ParameterInfo info;
    info.shape = layout.shape, info.layout = layout;
    info.offset_bytes = sent.plan.flat_bytes, info.bytes = layout.bytes;
    sent.plan.parameters.push_back(info);
    sent.plan.flat_bytes += (layout.bytes + 63) / 64 * 64;
  }
  sent.buckets = plan_buckets(sent.plan, cap, cap);
  return sent;
}

// Returns the means of all steps, [step][element] of rank 0, and checks that all ranks have the
// same bits.
std::vector<std::vector<float>> exchange(const std::string& hook, std::size_t count, int steps,
                                         const Given& given, const Travelling& sent) {
  const std::vector<Bucket>& buckets = sent.buckets;
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
      const auto coder = make_comm_hook(hooked(hook), context);
      allocate(*device, coder->planned(sent.plan, buckets));
      coder->open();
      coder->reset(*stream);
      for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step) {
        const auto values = gradients.view().as<float>();
        for (std::size_t i = 0; i < count; ++i) values[i] = given(rank, step, i);
        std::vector<comm::Work> started;
        const auto part = [&](std::size_t b) {
          return gradients.view().slice(buckets[b].offset_bytes, buckets[b].bytes);
        };
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          started.push_back(coder->start(b, part(b), {.after = stream.get()}));
        }
        std::vector<comm::Work> followed(buckets.size());
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          started[b].wait(*stream);
          if (coder->followed_bytes(b) == 0) continue;
          followed[b] = coder->follow(b, {.after = stream.get()});
        }
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          followed[b].wait(*stream);
          coder->decode(b, *stream, part(b));
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

Travelling two_matrices() {
  return in_matrices(
      {ops::TensorLayout::plain({60, 100}), ops::TensorLayout::plain({75, 20, 2, 2})}, 1);
}

float noise(std::size_t rank, std::size_t step, std::size_t i) {
  const double at = static_cast<double>(i * 7919 + rank * 104729 + step * 1299709);
  return static_cast<float>(std::sin(at) * std::exp(2 * std::sin(at / 17)));
}

TEST(CommHook, GivesAllRanksTheMeanOfWhatPlainLoopsEncode) {
  for (const std::string& hook : kHooks) {
    SCOPED_TRACE(hook);
    const ops::Encoding encoding = *encoding_of(hook);
    const auto got = exchange(hook, kGiven, 1, noise, in_two_buckets(kGiven))[0];
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
  for (const std::string hook : {"int8", "topk:5", "powersgd:8"}) {
    const Travelling parts = hook == "powersgd:8" ? two_matrices() : in_two_buckets(kGiven);
    const int most = hook == "powersgd:8" ? 40 : 200;
    for (const int steps : {1, most}) {
      std::vector<double> lost(kGiven);
      const auto steady = [](std::size_t rank, std::size_t, std::size_t i) {
        return noise(rank, 0, i);
      };
      const auto means = exchange(hook, kGiven, steps, steady, parts);
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
      if (hook != "int8" && steps == 1) {
        EXPECT_GT(share, hook == "topk:5" ? 0.4 : 0.15);
      }
      if (hook != "int8" && steps == most) {
        EXPECT_LT(share, hook == "topk:5" ? 0.1 : 0.08);
      }
    }
  }
}

// All in double: means of `steps` steps of matrices [rows, columns] by approximations of rank 2.
std::vector<std::vector<double>> plain_power_sgd(std::size_t rows, std::size_t columns, int steps) {
  constexpr std::size_t kWidth = 2;
  std::vector<double> q(kWidth * columns);
  SplitMix64 random(hooked("none").seed, 0);
  for (double& value : q) value = static_cast<float>(random.uniform(-1, 1));
  std::vector<std::vector<double>> kept(kHookedReplicas, std::vector<double>(rows * columns));
  std::vector<std::vector<double>> means;
  for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step) {
    std::vector<double> mean(rows * columns), p(rows * kWidth);
    for (std::size_t rank = 0; rank < kHookedReplicas; ++rank) {
      for (std::size_t i = 0; i < mean.size(); ++i) kept[rank][i] += noise(rank, step, i);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += kept[rank][i] / kHookedReplicas;
    }
    for (std::size_t k = 0; k < kWidth; ++k) {
      double length = 0;
      for (std::size_t i = 0; i < mean.size(); ++i)
        p[i / columns * kWidth + k] += mean[i] * q[k * columns + i % columns];
      for (std::size_t before = 0; before < k; ++before) {
        double dot = 0;
        for (std::size_t r = 0; r < rows; ++r) dot += p[r * kWidth + k] * p[r * kWidth + before];
        for (std::size_t r = 0; r < rows; ++r) p[r * kWidth + k] -= dot * p[r * kWidth + before];
      }
      for (std::size_t r = 0; r < rows; ++r) length += p[r * kWidth + k] * p[r * kWidth + k];
      for (std::size_t r = 0; r < rows; ++r) p[r * kWidth + k] /= std::sqrt(length);
    }
    std::ranges::fill(q, 0);
    for (std::size_t k = 0; k < kWidth; ++k) {
      for (std::size_t i = 0; i < mean.size(); ++i)
        q[k * columns + i % columns] += mean[i] * p[i / columns * kWidth + k];
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] = 0;
      for (std::size_t k = 0; k < kWidth; ++k)
        mean[i] += p[i / columns * kWidth + k] * q[k * columns + i % columns];
      for (auto& own : kept) own[i] -= mean[i];
    }
    means.push_back(mean);
  }
  return means;
}

TEST(PowerSgd, ComputesWhatPlainLoopsDo) {
  const auto got = exchange("powersgd:2", 24 * 40, 4, noise,
                            in_matrices({ops::TensorLayout::plain({24, 40})}, 1));
  const auto want = plain_power_sgd(24, 40, 4);
  for (std::size_t step = 0; step < want.size(); ++step) {
    for (std::size_t i = 0; i < want[step].size(); ++i)
      ASSERT_NEAR(got[step][i], want[step][i], 1e-3) << step << " " << i;
  }
}

// A layout in which groups of outputs lie together; plain where the processor has none.
ops::TensorLayout convolution_layout() {
  const auto device = make_cpu_device({.index = 0, .cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  const auto op = backend->make(ops::Conv2dDesc{.input = ops::TensorLayout::plain({4, 16, 9, 9}),
                                                .out_channels = 32,
                                                .window = ops::square_window(3, 2)});
  return op->plan().parameters[0].layout;
}

// [element in memory]: the number of the element in plain order.
std::vector<std::size_t> plain_places(const ops::TensorLayout& layout) {
  const auto device = make_cpu_device({.index = 0, .cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  const auto plain = ops::TensorLayout::plain(layout.shape);
  std::vector<float> numbers(layout.bytes / sizeof(float)), there(numbers.size());
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  backend->convert(plain, numbers.data(), layout, there.data());
  return {there.begin(), there.end()};
}

TEST(PowerSgd, GivesTheMeanWhereItHasNoHigherRankAndWhereItIsSmall) {
  const std::vector<ops::TensorLayout> layouts = {
      ops::TensorLayout::plain({16}), ops::TensorLayout::plain({4, 4}),
      ops::TensorLayout::plain({30, 32}), ops::TensorLayout::plain({32}), convolution_layout()};
  const Travelling sent = in_matrices(layouts, 2000);
  ASSERT_EQ(sent.buckets.size(), 2u);
  std::vector<std::size_t> row(sent.plan.flat_bytes / sizeof(float)), column(row.size());
  for (const nn::ParameterInfo& info : sent.plan.parameters) {
    const auto places = plain_places(info.layout);
    const auto columns = places.size() / static_cast<std::size_t>(info.shape[0]);  // of vectors 1
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::size_t at = info.offset_bytes / sizeof(float) + i;
      row[at] = places[i] / columns, column[at] = places[i] % columns;
    }
  }
  const Given given = [&](std::size_t rank, std::size_t step, std::size_t i) {
    return static_cast<float>(rank + 1 + step) * noise(0, step, row[i]) *
               noise(1, step, column[i]) +
           noise(2, rank, row[i]) * noise(3, step, column[i]);
  };
  const auto got = exchange("powersgd:2", row.size(), 3, given, sent);
  for (std::size_t step = 0; step < got.size(); ++step) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      double want = 0;
      for (std::size_t rank = 0; rank < kHookedReplicas; ++rank) want += given(rank, step, i) / 3.0;
      ASSERT_NEAR(got[step][i], want, 2e-3) << step << " " << i;
    }
  }
}

TEST(CommHook, TrainsNearlyAsDdpDoesWithEqualReplicas) {
  const nn::ModelSpec model = test::small_model();
  const auto start = test::starting_weights(model, 7);
  const auto exact = run_strategy(model, hooked("none"));
  for (const std::string& hook : kAllHooks) {
    SCOPED_TRACE(hook);
    const HarnessResult result = run_strategy(model, hooked(hook));
    for (const auto& weights : result.weights) {
      EXPECT_EQ(test::relative_error(start, weights, result.weights[0]), 0);
    }
    const double error = test::relative_error(start, result.weights[0], exact.weights[0]);
    const double most = hook == "bf16"       ? 0.02
                        : hook == "fp16"     ? 0.002
                        : hook == "int8"     ? 0.05
                        : hook == "topk:100" ? 1e-5
                                             : 1;
    EXPECT_LT(error, most);
    if (hook != "topk:100") {
      EXPECT_GT(error, most / 1000);
    }
  }
}

TEST(CommHook, ForgetsWhatItKeptWhenAllIsReset) {
  for (const std::string hook : {"int8", "topk:5", "powersgd:2"}) {
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
  void begin(Phase phase, Stream&) override { encodings += phase == Phase::encode ? 1 : 0; }
  void end(Phase, Stream&) override {}
  void bucket(const BucketTimes& times) override { sum += times.bytes, ++buckets; }
  std::uint64_t sum = 0;
  int encodings = 0, buckets = 0;
};

// What one rank gives of small_model(): each part begins at a cache line.
std::uint64_t small_model_bytes(std::uint64_t width) {
  std::uint64_t bytes = 0;
  const auto add = [&bytes](std::uint64_t floats) { bytes += (floats * 4 + 63) / 64 * 64; };
  for (const std::uint64_t bias : {5, 17, 33, 7}) add(bias);
  using Shape = std::pair<std::uint64_t, std::uint64_t>;
  for (const auto& [rows, columns] : {Shape{5, 9}, {17, 45}, {33, 17 * 3 * 2}, {7, 33}}) {
    if (width * (rows + columns) < rows * columns) {
      add(rows * width), add(columns * width);
    } else {
      add(rows * columns);
    }
  }
  return bytes;
}

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
  EXPECT_EQ(sent("powersgd:1"), small_model_bytes(1));
  EXPECT_EQ(sent("powersgd:3"), small_model_bytes(3));
}

TEST(CommHook, MarksWhatItComputes) {
  const auto sent = [](const std::string& hook) {
    SentBytes bytes;
    run_strategy(test::small_model(), hooked(hook), {.steps = 1, .observer = &bytes});
    return bytes;
  };
  const int buckets = sent("none").buckets;
  EXPECT_EQ(sent("none").encodings, 0);
  EXPECT_EQ(sent("fp16").encodings, 2 * buckets);
  const SentBytes twice = sent("powersgd:1");
  EXPECT_GT(twice.buckets, buckets);
  EXPECT_EQ(twice.encodings, buckets + twice.buckets);
}

TEST(CommHook, IsRefusedWhereItIsUnknown) {
  EXPECT_FALSE(encoding_of("none"));
  EXPECT_FALSE(encoding_of("powersgd:64"));
  EXPECT_EQ(encoding_of("topk:1")->kept, 41u);
  EXPECT_EQ(encoding_of("topk:0.025")->kept, 2u);
  for (const char* const hook :
       {"fp8", "topk", "topk:", "topk:0", "topk:0.001", "topk:101", "topk:-1", "topk:x", "topk:nan",
        "powersgd", "powersgd:", "powersgd:0", "powersgd:65", "powersgd:-1", "powersgd:1.5",
        "powersgd:x", ""}) {
    EXPECT_THROW(encoding_of(hook), ConfigError) << hook;
  }
}

}  // namespace
}  // namespace ddpbench
