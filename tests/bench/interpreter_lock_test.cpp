// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// --emulate-gil: what launching costs, and who waits for whom.
#include "bench/measure/interpreter_lock.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/bench/fake_device.h"

namespace ddpbench::bench {
namespace {

double seconds_of(const std::function<void()>& action) {
  const double begin_s = steady_s();
  action();
  return steady_s() - begin_s;
}

void launch_from_two_threads(InterpreterLock& first, InterpreterLock& second, int calls) {
  const auto launch = [calls](InterpreterLock& lock) {
    for (int i = 0; i < calls; ++i) lock.launch();
  };
  std::thread other([&] { launch(second); });
  launch(first);
  other.join();
}

TEST(InterpreterLock, IsHeldByOneThreadAtATime) {
  constexpr double kLaunch = 2e-3;
  constexpr int kCalls = 10;
  InterpreterLock lock(kLaunch);
  EXPECT_GE(seconds_of([&] { launch_from_two_threads(lock, lock, kCalls); }), 2 * kCalls * kLaunch);
}

class CallCount final : public nn::LayerObserver {
 public:
  void begin_call(std::size_t, Stream&) override { ++begun; }
  void end_call(std::size_t, Stream&) override { ++ended; }
  int begun = 0, ended = 0;
};

// Counts by processor time, which other programs do not lengthen.
TEST(LaunchedCalls, AreOneALayerHoweverManyMicroBatches) {
  constexpr double kLaunch = 0.02;
  InterpreterLock lock(kLaunch);
  CallCount also;
  LaunchedCalls calls(lock,
                      {"conv1 forward, micro-batch 1 of 12", "conv1 forward, micro-batch 2 of 12",
                       "conv1 forward, micro-batch 12 of 12", "fc1 forward"},
                      &also);
  test::FakeDevice device;
  const auto stream = device.make_stream();
  const double begin_s = thread_cpu_s();
  for (std::size_t call = 0; call < 4; ++call) {
    calls.begin_call(call, *stream);
    calls.end_call(call, *stream);
  }
  const double spent_s = thread_cpu_s() - begin_s;
  EXPECT_GE(spent_s, 2 * kLaunch);
  EXPECT_LT(spent_s, 3 * kLaunch);
  EXPECT_EQ(also.begun, 4);
  EXPECT_EQ(also.ended, 4);
}

}  // namespace
}  // namespace ddpbench::bench
