// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// LoopCalls: which calls Gloo's thread makes, and in which order.
#include "parallel/comm/gloo/loop_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace ddpbench::comm::testing {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<gloo::transport::tcp::Device> loopback_device() {
  return std::dynamic_pointer_cast<gloo::transport::tcp::Device>(
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1")));
}

// Returns when the calls that were added before are made.
void await_calls(LoopCalls& calls) {
  std::promise<void> made;
  calls.add([&] { made.set_value(); });
  made.get_future().wait();
}

TEST(LoopCalls, AreMadeOnOneOtherThreadInTheirOrder) {
  LoopCalls calls(loopback_device());
  std::vector<int> made, wanted(1000);
  std::iota(wanted.begin(), wanted.end(), 0);
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 1000; ++i) {
    calls.add([&, i] {
      made.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  await_calls(calls);
  EXPECT_EQ(made, wanted);
  EXPECT_NE(threads.front(), std::this_thread::get_id());
  EXPECT_THAT(threads, ::testing::Each(threads.front()));
}

TEST(LoopCalls, ThatACallAddsAreMadeAfterThoseThatWaited) {
  LoopCalls calls(loopback_device());
  std::promise<void> added, made;
  std::vector<int> order;
  calls.add([&] {
    added.get_future().wait();  // the second call waits now
    calls.add([&] {
      order.push_back(3);
      made.set_value();
    });
    order.push_back(1);
  });
  calls.add([&] { order.push_back(2); });
  added.set_value();
  made.get_future().wait();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(LoopCalls, LeaveADeviceThatOthersUse) {
  const auto device = loopback_device();
  for (int i = 0; i < 20; ++i) {
    auto calls = std::make_unique<LoopCalls>(device);
    std::promise<void> begun;
    calls->add([&] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    begun.get_future().wait();
    if (i % 2 == 0) calls->keep_awake();
    calls.reset();  // while the call is made
  }
  LoopCalls calls(device);
  await_calls(calls);
}

TEST(LoopCalls, AreMadeWhileTheThreadIsKeptAwake) {
  LoopCalls calls(loopback_device());
  calls.keep_awake();
  calls.keep_awake();
  for (int i = 0; i < 3; ++i) await_calls(calls);
}

TEST(LoopCalls, ThatHaveNotBeenMadeAreDropped) {
  auto calls = std::make_unique<LoopCalls>(loopback_device());
  std::promise<void> begun, ends;
  bool dropped_was_made = false;
  const auto held = std::make_shared<int>(0);
  calls->add([&] {
    begun.set_value();
    ends.get_future().wait();
  });
  begun.get_future().wait();
  calls->add([&, held] { dropped_was_made = true; });
  EXPECT_EQ(held.use_count(), 2);
  // The destructor waits until the thread has left the first call.
  std::thread destroyer([&] { calls.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ends.set_value();
  destroyer.join();
  EXPECT_FALSE(dropped_was_made);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace ddpbench::comm::testing
