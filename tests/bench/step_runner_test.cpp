// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps that are recorded and replayed, and the times of an asynchronous device.
#include "bench/measure/step_recorder.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/bench/queued_device.h"

namespace ddpbench::bench {
namespace {

constexpr double kClockRounding = 1e-9;

// A step adds its batch to a sum on the device, between the marks of a phase.
class SummingStrategy final : public Strategy {
 public:
  SummingStrategy(Stream& stream, PhaseObserver& observer) : stream_(stream), observer_(observer) {}

  void setup(const StrategyContext&) override {}
  void step(const StepInputs& inputs) override {
    const StepInput input = inputs(0);
    ++queued;
    if (fails) throw DeviceError("planted");
    const ScopedPhase phase(&observer_, Phase::forward, stream_);
    test::queue_work(stream_, [this, input] { sum += *input.images; });
  }
  void report(PhaseObserver&) override { ++reports; }
  void reset() override {}
  void assign(const std::function<void(nn::Graph&)>&) override {}
  std::vector<StatePart> parts() override { return {}; }
  std::vector<Replica*> replicas() override { return {}; }

  int queued = 0, reports = 0;
  double sum = 0;
  bool fails = false;

 private:
  Stream& stream_;
  PhaseObserver& observer_;
};

// Two memories in turn, as in a source that copies ahead.
class TwoBatches {
 public:
  StepInput next() { return {&values_[turn_++ % 2], nullptr}; }

 private:
  float values_[2] = {1, 100};
  std::size_t turn_ = 0;
};

class Steps : public testing::Test {
 protected:
  Steps()
      : device(1),
        stream(device.make_stream()),
        channels(launch::RankChannels::create({.ranks = 1, .step_capacity = 1000})),
        writer(channels.writer(0)),
        recorder(device, writer, {.steps_ahead = 3}),
        strategy(*stream, recorder.replica()) {
    recorder.follow(*stream);
  }

  StepRunner make_runner(bool records) { return {strategy, *stream, recorder, nullptr, records}; }

  void run(StepRunner& runner, int count, bool timed) {
    for (int i = 0; i < count; ++i) {
      recorder.begin_step(0, timed);
      runner.run([&](int) { return source.next(); });
      recorder.end_step([&] { strategy.report(recorder.replica()); });
    }
  }

  test::QueuedDevice device;
  std::unique_ptr<Stream> stream;
  launch::RankChannels channels;
  launch::RankWriter writer;
  StepRecorder recorder;
  SummingStrategy strategy;
  TwoBatches source;
};

TEST_F(Steps, AreRecordedOncePerMemoryAndKind) {
  StepRunner runner = make_runner(true);
  run(runner, 6, false);  // observed, as all untimed steps
  recorder.choose_interval(1e-6);
  const int recorded_in_warm_up = strategy.queued;
  run(runner, 100, true);
  recorder.finish_steps();
  EXPECT_EQ(strategy.queued, recorded_in_warm_up) << "a timed step was recorded";
  EXPECT_EQ(strategy.sum, 53 * (1 + 100));
  // The first step ran on its own; then two memories, with and without marks.
  EXPECT_EQ(strategy.queued, 1 + 4);
}

TEST_F(Steps, AreQueuedEachWithoutRecording) {
  StepRunner runner = make_runner(false);
  run(runner, 20, true);
  recorder.finish_steps();
  EXPECT_EQ(strategy.queued, 20);
}

TEST_F(Steps, LeaveTheRecordingWhenTheyFail) {
  StepRunner runner = make_runner(true);
  run(runner, 1, false);
  strategy.fails = true;
  EXPECT_THROW(run(runner, 1, false), DeviceError);
  EXPECT_NO_THROW(stream->synchronize());
}

TEST_F(Steps, ReplayedPhasesAreTimedAnew) {
  StepRunner runner = make_runner(true);
  run(runner, 6, false);
  device.work_s = 0.25;
  recorder.choose_interval(1e9);  // observe every step
  run(runner, 10, true);
  recorder.finish_steps();
  ASSERT_EQ(channels.steps(0).size(), 10u);
  for (const auto& step : channels.steps(0)) {
    EXPECT_EQ(step.phases_observed, bit_of(Phase::data_wait) | bit_of(Phase::forward));
    EXPECT_NEAR(step.phase_s[static_cast<std::size_t>(Phase::forward)], 0.25, kClockRounding);
  }
  EXPECT_EQ(strategy.reports, 16);
}

// The host queues a step in 1 ms, and the device works on it for 10 ms: a step lasts 10 ms, and the
// host does not wait for each.
TEST_F(Steps, LastAsLongAsTheDeviceTakesWhenTheHostRunsAhead) {
  StepRunner runner = make_runner(false);
  device.work_s = 10e-3;
  device.host_call_s = 1e-6;
  run(runner, 1, false);
  recorder.choose_interval(1e-6);  // observe rarely
  run(runner, 50, true);
  recorder.finish_steps();
  const auto steps = channels.steps(0);
  ASSERT_EQ(steps.size(), 50u);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_NEAR(steps[i].end_s - steps[i].begin_s, 10e-3, 1e-3) << i;
    EXPECT_GE(steps[i].begin_s, steps[i - 1].end_s - kClockRounding) << "steps may not overlap";
    EXPECT_EQ(steps[i].step, i);
  }
}

// Work that never starts: it waits for an event that is never reached.
class HungSteps : public testing::Test {
 protected:
  HungSteps() : device(1), stream(device.make_stream()), never(device.make_stream()) {
    gate = device.make_event();
    test::queue_work_after_nothing(*never);
    never->record(*gate);
  }

  // Returns the message of a rank whose device hangs in the step after `before` others.
  std::string message_of(int before, DeviceWaitOptions options) {
    auto channels = launch::RankChannels::create({.ranks = 1, .step_capacity = 100});
    auto writer = channels.writer(0);
    wait = std::make_shared<DeviceWait>(std::move(options));
    StepRecorder recorder(device, writer, {.observe = false, .steps_ahead = 2, .wait = wait});
    recorder.follow(*stream);
    try {
      for (int i = 0; i < before + 10; ++i) {
        recorder.begin_step(0, true);
        if (i == before) stream->wait(*gate);
        recorder.end_step();
      }
      recorder.finish_steps();
    } catch (const Error& error) {
      return std::string(error.kind()) + ": " + error.what();
    }
    return "";
  }

  test::QueuedDevice device;
  std::unique_ptr<Stream> stream, never;
  std::unique_ptr<Event> gate;
  std::shared_ptr<DeviceWait> wait;
};

TEST_F(HungSteps, EndAtTheDeadline) {
  EXPECT_EQ(message_of(5, {.rank = 3, .device = "queued:0", .limit_s = 0.01}),
            "timeout: rank 3, step 7: waited 0.01 s for the end of a step on queued:0, which did "
            "not finish; the device hangs, or --timeout is too short for this work");
}

}  // namespace
}  // namespace ddpbench::bench
