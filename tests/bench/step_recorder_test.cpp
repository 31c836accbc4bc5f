// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures a device of known time and noise: the figures must be what the device did.
#include "bench/measure/step_recorder.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "reports/metrics/metrics.h"
#include "tests/bench/fake_device.h"

namespace ddpbench::bench {
namespace {

constexpr double kRounding = 1e-9;  // of seconds, as doubles around 100

class Recorder : public testing::Test {
 protected:
  Recorder()
      : channels(launch::RankChannels::create(
            {.ranks = 1, .step_capacity = 1000, .bucket_capacity = 1000})),
        writer(channels.writer(0)),
        stream(device.make_stream()) {}

  StepRecorder make(RecorderOptions options = {}) {
    StepRecorder recorder(device, writer, std::move(options));
    recorder.follow(*stream);
    return recorder;
  }
  void phase(StepRecorder& recorder, Phase which, double seconds) {
    const ScopedPhase scope(&recorder.replica(), which, *stream);
    device.pass(seconds);
  }

  test::FakeDevice device;
  launch::RankChannels channels;
  launch::RankWriter writer;
  std::unique_ptr<Stream> stream;
};

TEST_F(Recorder, TimesAStepFromAskingForTheBatchToTheEndOfTheUpdate) {
  auto recorder = make();
  recorder.begin_step(3, true);
  phase(recorder, Phase::data_wait, 0.25);
  phase(recorder, Phase::forward, 0.5);
  phase(recorder, Phase::backward, 1.0);
  phase(recorder, Phase::optimizer, 0.125);
  recorder.end_step();
  const auto steps = channels.steps(0);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].epoch, 3u);
  EXPECT_NEAR(steps[0].end_s - steps[0].begin_s, 1.875, kRounding);
  EXPECT_NEAR(steps[0].phase_s[static_cast<std::size_t>(Phase::data_wait)], 0.25, kRounding);
  EXPECT_NEAR(steps[0].phase_s[static_cast<std::size_t>(Phase::backward)], 1.0, kRounding);
}

TEST_F(Recorder, LeavesUntimedStepsOut) {
  auto recorder = make();
  recorder.begin_step(0, false);
  device.pass(1);
  recorder.end_step();
  EXPECT_TRUE(channels.steps(0).empty());
  EXPECT_NEAR(recorder.last_step_s(), 1, kRounding);
}

TEST_F(Recorder, MarksASkippedStepAndKeepsTheTimeOfTheOneBefore) {
  auto recorder = make();
  for (const bool skipped : {false, true}) {
    recorder.begin_step(0, true);
    device.pass(skipped ? 0.001 : 1);
    recorder.end_step({}, skipped);
  }
  EXPECT_EQ(channels.steps(0)[0].skipped, 0u);
  EXPECT_EQ(channels.steps(0)[1].skipped, 1u);
  EXPECT_NEAR(recorder.last_step_s(), 1, kRounding);
}

TEST_F(Recorder, SplitsCommunicationIntoHiddenExposedAndWaiting) {
  auto recorder = make();
  recorder.begin_step(0, true);
  const double begin = device.clock_s;
  phase(recorder, Phase::backward, 1.0);   // 0 .. 1
  phase(recorder, Phase::comm_wait, 0.5);  // 1 .. 1.5
  // Ready at 0.4, entered at 0.5, the peer came at 0.6, done at 1.3: 0.4 hidden, 0.3 exposed.
  recorder.replica().bucket({.bucket = 0,
                             .bytes = 64,
                             .ready_s = begin + 0.4,
                             .start_s = begin + 0.5,
                             .arrived_s = begin + 0.6,
                             .end_s = begin + 1.3});
  recorder.end_step();
  const auto& step = channels.steps(0)[0];
  EXPECT_NEAR(step.comm_s, 0.7, kRounding);
  EXPECT_NEAR(step.comm_overlapped_s, 0.4, kRounding);
  EXPECT_NEAR(step.comm_wait_s, 0.1, kRounding);
  ASSERT_EQ(channels.buckets(0).size(), 1u);
  EXPECT_EQ(channels.buckets(0)[0].times.bytes, 64u);
}

TEST_F(Recorder, CountsWaitingAsExposedOnlyWhereNothingElseGoesOn) {
  auto recorder = make();
  recorder.begin_step(0, true);
  const double begin = device.clock_s;
  phase(recorder, Phase::backward, 1.0);   // 0 .. 1
  phase(recorder, Phase::comm_wait, 1.0);  // 1 .. 2
  const auto bucket = [&](double start, double arrived, double end) {
    recorder.replica().bucket(
        {.start_s = begin + start, .arrived_s = begin + arrived, .end_s = begin + end});
  };
  bucket(0.8, 1.2, 1.4);  // waits behind backward until 1, exposed until 1.2
  bucket(1.3, 1.7, 2.0);  // until 1.4 the first one moves, exposed until 1.7
  recorder.end_step();
  const auto& step = channels.steps(0)[0];
  EXPECT_NEAR(step.comm_wait_s, 0.8, kRounding);
  EXPECT_NEAR(step.comm_wait_exposed_s, 0.2 + 0.3, kRounding);
}

TEST_F(Recorder, CountsTransfersOfDataParallelAsExposedCommunication) {
  auto recorder = make();
  recorder.begin_step(0, true);
  phase(recorder, Phase::scatter, 0.25);
  phase(recorder, Phase::forward, 1.0);
  phase(recorder, Phase::gather, 0.5);
  recorder.end_step();
  const auto& step = channels.steps(0)[0];
  EXPECT_NEAR(step.comm_s, 0.75, kRounding);
  EXPECT_NEAR(step.comm_overlapped_s, 0, kRounding);
}

TEST_F(Recorder, CountsWhatHooksComputeAsExposedCommunication) {
  auto recorder = make();
  recorder.begin_step(0, true);
  const double begin = device.clock_s;
  recorder.replica().begin(Phase::backward, *stream);
  device.pass(0.5);
  phase(recorder, Phase::encode, 0.25);  // 0.5 .. 0.75
  device.pass(0.25);
  recorder.replica().end(Phase::backward, *stream);
  phase(recorder, Phase::comm_wait, 0.5);  // 1 .. 1.5
  phase(recorder, Phase::encode, 0.125);   // 1.5 .. 1.625
  recorder.replica().bucket(
      {.start_s = begin + 0.75, .arrived_s = begin + 0.75, .end_s = begin + 1.5});
  recorder.end_step();
  const auto& step = channels.steps(0)[0];
  const auto length = [&](Phase phase) { return step.phase_s[static_cast<std::size_t>(phase)]; };
  EXPECT_NEAR(length(Phase::backward), 0.75, kRounding);
  EXPECT_NEAR(length(Phase::encode), 0.375, kRounding);
  EXPECT_NEAR(step.comm_s, 0.25 + 0.75 + 0.125, kRounding);
  EXPECT_NEAR(step.comm_overlapped_s, 0.25, kRounding);
}

TEST_F(Recorder, RecoversTheMedianOfNoisySteps) {
  auto recorder = make();
  std::mt19937 random(1);
  std::vector<double> truth;
  for (int i = 0; i < 500; ++i) {
    truth.push_back(0.02 * std::lognormal_distribution<double>(0, 0.1)(random));
    recorder.begin_step(0, true);
    phase(recorder, Phase::forward, truth.back());
    recorder.end_step();
    device.pass(0.5);  // between steps: this belongs to no step
  }
  std::vector<double> measured;
  for (const auto& step : channels.steps(0)) measured.push_back(step.end_s - step.begin_s);
  const auto expected = report::summarize(truth);
  const auto found = report::summarize(measured);
  EXPECT_NEAR(found.median, expected.median, kRounding);
  EXPECT_NEAR(*found.iqr.value, *expected.iqr.value, kRounding);
  EXPECT_NEAR(found.p99, expected.p99, kRounding);
}

TEST_F(Recorder, ObservesPhasesRarelyEnoughToStayBelowHalfAPercent) {
  device.record_cost_s = 1e-6;
  auto recorder = make();
  const auto one_step = [&](bool timed) {
    recorder.begin_step(0, timed);
    for (int i = 0; i < 5; ++i) phase(recorder, Phase::forward, 20e-6);
    recorder.end_step();
  };
  one_step(false);  // 5 phases cost 10 us in a step of 100 us: every 20th step is 0.5 %, the next
                    // power of two 32
  recorder.choose_interval(recorder.last_step_s());
  EXPECT_EQ(recorder.interval(), 32u);
  for (int i = 0; i < 100; ++i) one_step(true);
  int observed = 0;
  for (const auto& step : channels.steps(0)) observed += step.phases_observed != 0;
  EXPECT_EQ(observed, static_cast<int>((100 + recorder.interval() - 1) / recorder.interval()));
}

// Cycles begin with an epoch, whose last one may be cut.
TEST_F(Recorder, ObservesWholeCyclesOfSteps) {
  device.record_cost_s = 1e-6;
  auto recorder = make({.cycle = 3});
  const auto one_step = [&](std::uint32_t epoch, bool timed) {
    recorder.begin_step(epoch, timed);
    phase(recorder, Phase::forward, 250e-6);
    recorder.end_step();
  };
  one_step(0, false);
  recorder.choose_interval(recorder.last_step_s());
  ASSERT_EQ(recorder.interval(), 2u);
  for (const std::uint32_t epoch : {0, 1}) {
    for (int i = 0; i < 7; ++i) one_step(epoch, true);
  }
  std::string observed;
  for (const auto& step : channels.steps(0)) observed += step.phases_observed != 0 ? 'x' : '.';
  EXPECT_EQ(observed, "xxx...x...xxx.");
}

TEST_F(Recorder, RecordsStepsAloneWhenObservationIsOff) {
  auto recorder = make({.observe = false});
  recorder.begin_step(0, true);
  phase(recorder, Phase::forward, 0.5);
  recorder.replica().bucket({.bucket = 0});
  recorder.end_step();
  EXPECT_EQ(channels.steps(0)[0].phases_observed, 0u);
  EXPECT_NEAR(channels.steps(0)[0].end_s - channels.steps(0)[0].begin_s, 0.5, kRounding);
  EXPECT_TRUE(channels.buckets(0).empty());
}

TEST_F(Recorder, TracesPhasesAndCallsOfTheFirstTimedSteps) {
  auto traced = launch::RankChannels::create({.step_capacity = 10, .trace_capacity = 100});
  auto traced_writer = traced.writer(0);
  StepRecorder recorder(device, traced_writer, {.trace_steps = 2});
  recorder.follow(*stream);
  ReplicaRecorder& trace = recorder.replica();
  const auto one_step = [&](bool timed) {
    recorder.begin_step(0, timed);
    trace.begin(Phase::forward, *stream);
    trace.begin_call(7, *stream);
    device.pass(0.25);
    trace.end_call(7, *stream);
    device.pass(0.25);
    trace.end(Phase::forward, *stream);
    recorder.end_step();
  };
  one_step(false);
  const double begin = device.clock_s;
  for (int i = 0; i < 5; ++i) one_step(true);
  const auto records = traced.trace(0);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].kind, launch::TraceRecord::Kind::phase);
  EXPECT_EQ(records[0].which, static_cast<std::uint32_t>(Phase::forward));
  EXPECT_NEAR(records[0].end_s - begin, 0.5, kRounding);
  EXPECT_EQ(records[1].kind, launch::TraceRecord::Kind::layer);
  EXPECT_EQ(records[1].which, 7u);
  EXPECT_NEAR(records[1].end_s - begin, 0.25, kRounding);
  EXPECT_EQ(records[3].step, 1u);
  EXPECT_NEAR(traced.steps(0)[0].phase_s[static_cast<std::size_t>(Phase::forward)], 0.5, kRounding);
}

TEST_F(Recorder, TracesTheWaitForABatchByTheHostsClock) {
  auto traced = launch::RankChannels::create({.step_capacity = 10, .trace_capacity = 100});
  auto traced_writer = traced.writer(0);
  StepRecorder recorder(device, traced_writer, {.trace_steps = 1});
  recorder.follow(*stream);
  ReplicaRecorder& trace = recorder.replica();
  recorder.begin_step(0, true);
  trace.begin(Phase::data_wait, *stream);
  device.pass(0.5);
  trace.end(Phase::data_wait, *stream);
  recorder.end_step();
  ASSERT_EQ(traced.trace(0).size(), 1u);
  EXPECT_NEAR(traced.trace(0)[0].end_s - traced.trace(0)[0].begin_s, 0.5, kRounding);
}

TEST_F(Recorder, ObservesTheFirstStepsHoweverLongTheInterval) {
  device.record_cost_s = 1e-6;
  auto recorder = make({.trace_steps = 3});
  const auto one_step = [&](bool timed) {
    recorder.begin_step(0, timed);
    for (int i = 0; i < 5; ++i) phase(recorder, Phase::forward, 20e-6);
    recorder.end_step();
  };
  one_step(false);
  recorder.choose_interval(recorder.last_step_s());
  ASSERT_EQ(recorder.interval(), 32u);
  for (int i = 0; i < 10; ++i) one_step(true);
  const auto steps = channels.steps(0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].phases_observed != 0, i < 3) << i;
  }
}

TEST_F(Recorder, ThrowsInThePlantedStep) {
  Injection injection;
  injection.kind = "throw";
  injection.step = 1;
  injection.text = "throw:step=1";
  auto recorder = make({.sinks = {.faults = {injection}}});
  recorder.begin_step(0, true);
  recorder.end_step();
  EXPECT_THROW(recorder.begin_step(0, true), InternalError);
  EXPECT_NO_THROW(recorder.begin_step(0, true));
}

// The clock moves only when it is read, so that the planted slowness ends.
class TickingDevice : public test::FakeDevice {
 public:
  double now_s() const override { return const_cast<TickingDevice*>(this)->clock_s += 1e-3; }
};

TEST_F(Recorder, StretchesThePlantedPhaseByThePlantedShare) {
  TickingDevice ticking;
  const auto ticking_stream = ticking.make_stream();
  Injection injection;
  injection.kind = "slow";
  injection.phase = "backward";
  injection.percent = 25;
  StepRecorder recorder(ticking, writer, {.sinks = {.faults = {injection}}});
  recorder.follow(*ticking_stream);
  ReplicaRecorder& faults = recorder.replica();
  recorder.begin_step(0, true);
  faults.begin(Phase::forward, *ticking_stream);
  ticking.pass(1);
  faults.end(Phase::forward, *ticking_stream);
  faults.begin(Phase::backward, *ticking_stream);
  ticking.pass(2);
  faults.end(Phase::backward, *ticking_stream);
  recorder.end_step();
  const auto& step = channels.steps(0)[0];
  EXPECT_NEAR(step.phase_s[static_cast<std::size_t>(Phase::forward)], 1, 0.01);
  EXPECT_NEAR(step.phase_s[static_cast<std::size_t>(Phase::backward)], 2.5, 0.01);
}

}  // namespace
}  // namespace ddpbench::bench
