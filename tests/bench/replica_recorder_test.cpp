// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What each replica of dp did and waited for, on a device of known time; and --emulate-gil: what
// launching costs, and who waits for whom.
#include "bench/measure/replica_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "bench/measure/step_recorder.h"
#include "tests/bench/fake_device.h"

namespace ddpbench::bench {
namespace {

constexpr double kReplicaRounding = 1e-9;

double phase_of(const launch::StepRecord& step, Phase phase) {
  return step.phase_s[static_cast<std::size_t>(phase)];
}

TEST(ReplicaTimes, WaitUntilTheLastOneHasEntered) {
  const std::vector<PhaseInterval> own = {
      {Phase::reduce, 2, 5}, {Phase::reduce, 6, 7}, {Phase::scatter, 8, 9}};
  const std::vector<std::vector<PhaseInterval>> others = {
      {{Phase::reduce, 1, 5}, {Phase::reduce, 6.25, 7}},
      {{Phase::gather, 4, 5}},
      {{Phase::reduce, 3.5, 5}}};
  EXPECT_EQ(waited_s(own, 0, others), 1.5);
  EXPECT_EQ(waited_s(own, 1, others), 0.25);  // the second waits for their second
  EXPECT_EQ(waited_s(own, 2, others), 0);
  const std::vector<PhaseInterval> brief = {{Phase::reduce, 2, 3}};
  EXPECT_EQ(waited_s(brief, 0, others), 1);  // never longer than the phase
}

TEST(ReplicaTimes, TellWaitingForThePrimaryFromIdleness) {
  // The primary loads until 1, computes forward until 3, the loss until 4, and updates until 7.
  const std::vector<PhaseInterval> primary = {{Phase::scatter, 1, 1.5}, {Phase::forward, 1.5, 3},
                                              {Phase::gather, 3, 3},    {Phase::loss, 3, 4},
                                              {Phase::backward, 4, 5},  {Phase::reduce, 5, 6},
                                              {Phase::optimizer, 6, 7}};
  const std::vector<PhaseInterval> other = {{Phase::scatter, 0.5, 1.5}, {Phase::forward, 1.5, 2},
                                            {Phase::gather, 2, 3},      {Phase::loss, 3, 4},
                                            {Phase::backward, 4, 4.5},  {Phase::reduce, 4.5, 6}};
  const std::vector<std::vector<PhaseInterval>> all = {primary, other};
  std::vector<launch::ReplicaRecord> records;
  fill_replica_records(all, 9, 7, records);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].step, 9U);
  EXPECT_EQ(records[0].replica, 1U);
  EXPECT_EQ(records[0].forward_s, 0.5);
  EXPECT_EQ(records[0].backward_s, 0.5);
  // For scatter 0.5, gather 1, the loss 1 and reduce 0.5.
  EXPECT_EQ(records[0].comm_wait_s, 3);
  EXPECT_EQ(records[0].idle_s, 1.5);  // before 0.5, and while the primary updates
}

// Phases come in the order of their begins; what a sync takes is no longer the pass's.
TEST(ReplicaRecording, CutsSyncsOutOfThePassesAroundThem) {
  const PhaseLengths lengths = lengths_of({{Phase::forward, 0, 10},
                                           {Phase::sync_batch_norm, 2, 3},
                                           {Phase::sync_batch_norm, 5, 9},
                                           {Phase::loss, 10, 11},
                                           {Phase::backward, 11, 20},
                                           {Phase::sync_batch_norm, 12, 20}});
  EXPECT_EQ(lengths[static_cast<std::size_t>(Phase::forward)], 5);
  EXPECT_EQ(lengths[static_cast<std::size_t>(Phase::backward)], 1);
  EXPECT_EQ(lengths[static_cast<std::size_t>(Phase::sync_batch_norm)], 13);
  EXPECT_EQ(lengths[static_cast<std::size_t>(Phase::loss)], 1);
}

TEST(ReplicaRecording, KeepsASyncOfEachReplicaAsItsOwn) {
  const std::vector<std::vector<PhaseInterval>> all = {
      {{Phase::forward, 0, 10}}, {{Phase::forward, 0, 10}, {Phase::sync_batch_norm, 4, 7}}};
  std::vector<launch::ReplicaRecord> records;
  fill_replica_records(all, 0, 12, records);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].forward_s, 7);
  EXPECT_EQ(records[0].sync_s, 3);
  EXPECT_EQ(records[0].idle_s, 2);
}

TEST(ReplicaRecording, TellsThePrimarysTransfersFromItsWaiting) {
  test::FakeDevice device;
  auto channels =
      launch::RankChannels::create({.ranks = 1, .step_capacity = 10, .replica_capacity = 10});
  auto writer = channels.writer(0);
  const auto stream = device.make_stream();
  StepRecorder recorder(device, writer, {});
  recorder.follow(*stream);
  recorder.add_replica(device, {});
  ReplicaRecorder& other = recorder.replica(1);
  recorder.begin_step(0, true);
  recorder.replica().begin(Phase::forward, *stream);
  device.pass(1);
  recorder.replica().end(Phase::forward, *stream);
  other.begin(Phase::forward, *stream);
  recorder.replica().begin(Phase::gather, *stream);
  device.pass(2);
  other.end(Phase::forward, *stream);
  other.begin(Phase::gather, *stream);  // comes 2 s after the primary
  device.pass(0.5);
  other.end(Phase::gather, *stream);
  recorder.replica().end(Phase::gather, *stream);
  device.pass(0.25);
  recorder.end_step();
  ASSERT_EQ(channels.steps(0).size(), 1U);
  const launch::StepRecord& step = channels.steps(0)[0];
  EXPECT_NEAR(phase_of(step, Phase::forward), 1, kReplicaRounding);
  EXPECT_NEAR(phase_of(step, Phase::gather), 0.5, kReplicaRounding);
  EXPECT_NEAR(step.comm_s, 0.5, kReplicaRounding);
  EXPECT_NEAR(step.comm_wait_s, 2, kReplicaRounding);
  EXPECT_NEAR(step.comm_wait_exposed_s, 2, kReplicaRounding);
  ASSERT_EQ(channels.replicas(0).size(), 1U);
  const launch::ReplicaRecord& replica = channels.replicas(0)[0];
  EXPECT_EQ(replica.replica, 1U);
  EXPECT_NEAR(replica.forward_s, 2, kReplicaRounding);
  EXPECT_NEAR(replica.comm_wait_s, 0, kReplicaRounding);
  EXPECT_NEAR(replica.idle_s, 1.25, kReplicaRounding);
}

TEST(ReplicaRecording, LeavesStepsThatAreNotObservedOut) {
  test::FakeDevice device;
  auto channels =
      launch::RankChannels::create({.ranks = 1, .step_capacity = 10, .replica_capacity = 10});
  auto writer = channels.writer(0);
  const auto stream = device.make_stream();
  StepRecorder recorder(device, writer, {.observe = false});
  recorder.follow(*stream);
  recorder.add_replica(device, {});
  ReplicaRecorder& other = recorder.replica(1);
  recorder.begin_step(0, true);
  other.begin(Phase::forward, *stream);
  other.end(Phase::forward, *stream);
  recorder.end_step();
  EXPECT_TRUE(channels.replicas(0).empty());
}

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

// A thread that asks again at once would take the lock each time before the other one wakes.
void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

TEST(InterpreterLock, IsAWaitOfItsOwnInNoPhase) {
  InterpreterLock lock(5e-3);
  test::FakeDevice device;
  auto channels =
      launch::RankChannels::create({.ranks = 1, .step_capacity = 10, .replica_capacity = 10});
  auto writer = channels.writer(0);
  const auto stream = device.make_stream();
  StepRecorder recorder(device, writer, {});
  recorder.follow(*stream);
  recorder.add_replica(device, {.interpreter = &lock});
  ReplicaRecorder& replica = recorder.replica(1);
  replica.name_calls({"conv1 forward"});
  recorder.begin_step(0, true);
  replica.begin(Phase::forward, *stream);
  std::atomic<bool> is_done = false;
  std::thread other([&] {
    for (; !is_done; rest()) lock.launch();
  });
  const double waited_s = seconds_of([&] {
    for (int i = 0; i < 20; ++i, rest()) replica.begin_call(0, *stream);
  });
  is_done = true;
  other.join();
  device.pass(100);
  replica.end(Phase::forward, *stream);
  device.pass(2);
  recorder.end_step();
  ASSERT_EQ(channels.replicas(0).size(), 1U);
  const launch::ReplicaRecord& record = channels.replicas(0)[0];
  EXPECT_GT(record.interpreter_wait_s, 1e-3);
  EXPECT_LT(record.interpreter_wait_s, waited_s);
  EXPECT_NEAR(record.forward_s, 100 - record.interpreter_wait_s, kReplicaRounding);
  EXPECT_NEAR(record.idle_s, 2, kReplicaRounding);
}

// Counts by processor time, which other programs do not lengthen.
TEST(LaunchedCalls, AreOneALayerHoweverManyMicroBatches) {
  constexpr double kLaunch = 0.02;
  InterpreterLock lock(kLaunch);
  test::FakeDevice device;
  ReplicaRecorder calls(device, {.interpreter = &lock});
  calls.name_calls({"conv1 forward, micro-batch 1 of 12", "conv1 forward, micro-batch 2 of 12",
                    "conv1 forward, micro-batch 12 of 12", "fc1 forward"});
  const auto stream = device.make_stream();
  const double begin_s = thread_cpu_s();
  for (std::size_t call = 0; call < 4; ++call) {
    calls.begin_call(call, *stream);
    calls.end_call(call, *stream);
  }
  const double spent_s = thread_cpu_s() - begin_s;
  EXPECT_GE(spent_s, 2 * kLaunch);
  EXPECT_LT(spent_s, 3 * kLaunch);
}

}  // namespace
}  // namespace ddpbench::bench
