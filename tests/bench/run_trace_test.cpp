// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes Chrome trace events from records of known times.
#include "bench/run/run_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/host/environment_capture.h"
#include "bench/rank/rank_result.h"
#include "tests/bench/trace_checker.h"

namespace ddpbench::bench {
namespace {

using launch::TraceRecord;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

TrainingJob job_of(const std::string& strategy, int traced_steps) {
  TrainingJob job;
  job.cell = {.strategy = strategy, .world_size = 2, .servers = strategy == "ps" ? 1 : 0};
  job.title = strategy + " on 2 devices";
  job.options.trace_path = "trace.json";
  job.options.trace_steps = traced_steps;
  return job;
}

launch::RankChannels make_channels(std::size_t trace_capacity = 100) {
  return launch::RankChannels::create(
      {.ranks = 2, .step_capacity = 10, .bucket_capacity = 10, .trace_capacity = trace_capacity});
}

void write_result(launch::RankWriter& writer, const std::string& host,
                  std::vector<EpochResult> epochs = {}) {
  RankResult result;
  result.epochs = std::move(epochs);
  result.host = host;
  result.calls = {"conv1 forward, micro-batch 1 of 2", "conv1 backward"};
  writer.result(encoded(result));
}

// Writes a step from `begin` on that lasts 10: forward 1 to 3 with a call, backward 3 to 7, and two
// buckets in flight at the same time.
void write_step(launch::RankWriter& writer, std::uint32_t number, double begin) {
  writer.append(launch::StepRecord{.step = number, .begin_s = begin, .end_s = begin + 10});
  const auto trace = [&](TraceRecord::Kind kind, std::uint32_t which, double from, double to) {
    writer.append(TraceRecord{.step = number,
                              .kind = kind,
                              .which = which,
                              .begin_s = begin + from,
                              .end_s = begin + to});
  };
  const auto phase = [](Phase which) { return static_cast<std::uint32_t>(which); };
  trace(TraceRecord::Kind::phase, phase(Phase::data_wait), 0, 1);
  trace(TraceRecord::Kind::phase, phase(Phase::forward), 1, 3);
  trace(TraceRecord::Kind::phase, phase(Phase::backward), 3, 7);
  trace(TraceRecord::Kind::layer, 0, 1.25, 2.5);
  const auto bucket = [&](std::uint32_t index, double ready, double start, double arrived,
                          double end) {
    writer.append(launch::BucketRecord{
        .step = number,
        .times = {index, 64, begin + ready, begin + start, begin + arrived, begin + end}});
  };
  bucket(0, 4, 4.5, 6, 9);
  bucket(1, 7, 7, 8, 9.5);
}

json trace_of(const TrainingJob& job, const launch::RankChannels& channels) {
  report::Trace trace;
  add_run(trace, job, channels);
  return json::parse(report::to_chrome_json(trace));
}

const json& event_named(const json& trace, int process, const std::string& name) {
  for (const json& event : trace["traceEvents"]) {
    if (event["pid"] == process && event["name"] == name) return event;
  }
  ADD_FAILURE() << "no event " << name;
  return trace;
}

TEST(RunTrace, PlacesStepsPhasesCallsAndBucketsOfEveryRank) {
  auto channels = make_channels();
  for (int rank = 0; rank < 2; ++rank) {
    auto writer = channels.writer(rank);
    write_result(writer, "node");
    write_step(writer, 0, 100 + rank);
    write_step(writer, 1, 110 + rank);
  }
  const json trace = trace_of(job_of("ddp", 5), channels);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  EXPECT_THAT(test::process_names(trace),
              ElementsAre("ddp on 2 devices, rank 0", "ddp on 2 devices, rank 1"));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(test::count_events(trace, rank, "step"), 2);
    EXPECT_EQ(test::count_events(trace, rank, "epoch"), 1);
    EXPECT_EQ(test::count_events(trace, rank, "phase", "backward"), 2);
    EXPECT_EQ(test::count_events(trace, rank, "layer", "conv1 forward, micro-batch 1 of 2"), 2);
    EXPECT_EQ(test::count_events(trace, rank, "bucket", "bucket 0"), 2);
    EXPECT_EQ(test::count_events(trace, rank, "bucket", "bucket 1"), 2);
    EXPECT_EQ(test::count_events(trace, rank, "waiting"), 4);
  }
  // Rank 1 began a second after rank 0, on the same clock.
  EXPECT_EQ(event_named(trace, 0, "step 0")["ts"], 0.0);
  EXPECT_EQ(event_named(trace, 1, "step 0")["ts"], 1e6);
  EXPECT_EQ(event_named(trace, 0, "forward")["dur"], 2e6);
  EXPECT_EQ(event_named(trace, 0, "bucket 0")["args"]["bytes"], 64);
  EXPECT_EQ(event_named(trace, 0, "bucket 0 ready")["ts"], 4e6);
  EXPECT_NE(event_named(trace, 0, "bucket 0")["tid"], event_named(trace, 0, "bucket 1")["tid"]);
}

// The bytes of both buckets of write_step: 64 each, bucket 0 from 4.5 (there at 6) to 9, bucket 1
// from 7 (there at 8) to 9.5.
TEST(RunTrace, CountsTheBytesUnderWay) {
  auto channels = make_channels();
  auto writer = channels.writer(0);
  write_result(writer, "node");
  write_step(writer, 0, 100);
  const json trace = trace_of(job_of("ddp", 5), channels);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  std::vector<std::vector<double>> found;  // time, waiting, transferring
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    EXPECT_EQ(event["name"], "bytes under way");
    EXPECT_EQ(event["pid"], 0);
    found.push_back({event["ts"].get<double>() / 1e6, event["args"]["waiting for peers"],
                     event["args"]["transferring"]});
  }
  const std::vector<std::vector<double>> expected = {{4.5, 64, 0}, {6, 0, 64}, {7, 64, 64},
                                                     {8, 0, 128},  {9, 0, 64}, {9.5, 0, 0}};
  EXPECT_EQ(found, expected);
}

// Rounds of the verification and the warm-up come first; the last start has the timed steps.
TEST(RunTrace, HasATrackForEachServer) {
  auto channels = launch::RankChannels::create(
      {.ranks = 3, .step_capacity = 10, .bucket_capacity = 10, .trace_capacity = 100});
  for (int rank = 0; rank < 2; ++rank) {
    auto writer = channels.writer(rank);
    write_result(writer, "node");
    for (std::uint32_t step = 0; step < 2; ++step)
      write_step(writer, step, 100. + 10. * step + rank);
  }
  auto server = channels.writer(2);
  write_result(server, "node");
  const auto round = [&](std::uint32_t start, std::uint32_t step, double begin) {
    double at = begin;
    for (const Phase phase : {Phase::push, Phase::reduce, Phase::optimizer, Phase::pull}) {
      server.append(TraceRecord{.step = step,
                                .kind = TraceRecord::Kind::phase,
                                .which = static_cast<std::uint32_t>(phase),
                                .replica = start,
                                .begin_s = at,
                                .end_s = at + 0.5});
      at += 0.5;
    }
  };
  round(1, 0, 80);
  round(1, 1, 90);
  for (std::uint32_t step = 0; step < 3; ++step) round(2, step, 107 + 10 * step);
  const json trace = trace_of(job_of("ps", 2), channels);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  EXPECT_THAT(test::process_names(trace),
              ElementsAre("ps on 2 devices, rank 0", "ps on 2 devices, rank 1",
                          "ps on 2 devices, rank 2 (server)"));
  EXPECT_EQ(test::count_events(trace, 2, "step"), 2) << "the third is beyond the traced steps";
  for (const char* name : {"receive gradients", "average", "update", "send the result"}) {
    EXPECT_EQ(test::count_events(trace, 2, "phase", name), 2) << name;
  }
  EXPECT_EQ(event_named(trace, 2, "step 0")["ts"], 7e6);
  EXPECT_EQ(event_named(trace, 2, "step 0")["dur"], 2e6);
  EXPECT_EQ(event_named(trace, 2, "update")["ts"], 8e6);
  EXPECT_NE(event_named(trace, 2, "update")["tid"],
            event_named(trace, 2, "send the result")["tid"]);
}

// A run that ended in its warm-up has no timed step that a server's round could belong to.
TEST(RunTrace, ShowsNoServerOfARunWithoutATimedStep) {
  auto channels = launch::RankChannels::create(
      {.ranks = 3, .step_capacity = 10, .bucket_capacity = 10, .trace_capacity = 100});
  auto server = channels.writer(2);
  write_result(server, "node");
  server.append(TraceRecord{.step = 0,
                            .kind = TraceRecord::Kind::phase,
                            .which = static_cast<std::uint32_t>(Phase::push),
                            .replica = 1,
                            .begin_s = 90,
                            .end_s = 91});
  EXPECT_THAT(trace_of(job_of("ps", 5), channels)["traceEvents"], IsEmpty());
}

// Runs lie below each other at 0; what the clock of the host showed then tells them apart.
TEST(RunTrace, SaysWhenEachRunBegan) {
  auto channels = make_channels();
  auto writer = channels.writer(0);
  write_result(writer, host_name());
  write_step(writer, 0, steady_s() - 20);
  const std::string before = utc_time("%Y-%m-%dT%H:%M", std::time(nullptr) - 20);
  const json trace = trace_of(job_of("ddp", 5), channels);
  const std::string after = utc_time("%Y-%m-%dT%H:%M", std::time(nullptr) - 20);
  const std::string began = trace["otherData"]["time_0 of ddp on 2 devices"];
  EXPECT_THAT(began, testing::AnyOf(testing::StartsWith(before), testing::StartsWith(after)));
  EXPECT_THAT(began, testing::MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9][0-9][0-9]Z"));
  EXPECT_EQ(event_named(trace, 0, "process_labels")["args"]["labels"], "time 0: " + began);
}

TEST(RunTrace, LeavesStepsBeyondTheTracedOnesOut) {
  auto channels = make_channels();
  auto writer = channels.writer(0);
  write_result(writer, "node");
  for (std::uint32_t step = 0; step < 3; ++step) write_step(writer, step, 100 + 10 * step);
  const json trace = trace_of(job_of("ddp", 2), channels);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  EXPECT_EQ(test::count_events(trace, 0, "step"), 2);
  EXPECT_EQ(test::count_events(trace, 0, "bucket"), 4);
  // The event of the epoch says that it went on.
  EXPECT_EQ(event_named(trace, 0, "epoch 0")["dur"], 30e6);
}

TEST(RunTrace, NumbersTheProcessesOfFurtherRunsOnAndBeginsEachAtZero) {
  auto first = make_channels(), second = make_channels();
  for (int rank = 0; rank < 2; ++rank) {
    auto a = first.writer(rank), b = second.writer(rank);
    write_result(a, "node");
    write_step(a, 0, 100);
    write_result(b, "node");
    write_step(b, 0, 500);
  }
  report::Trace trace;
  add_run(trace, job_of("ddp", 5), first);
  add_run(trace, job_of("ps", 5), second);
  const json document = json::parse(report::to_chrome_json(trace));
  EXPECT_THAT(test::trace_problems(document), IsEmpty());
  EXPECT_THAT(test::process_names(document),
              ElementsAre("ddp on 2 devices, rank 0", "ddp on 2 devices, rank 1",
                          "ps on 2 devices, rank 0", "ps on 2 devices, rank 1"));
  EXPECT_EQ(event_named(document, 2, "step 0")["ts"], 0.0);
  EXPECT_EQ(test::count_events(document, 2, "bucket", "push shard 0"), 1);
  EXPECT_EQ(test::count_events(document, 2, "bucket", "pull shard 0"), 1);
}

TEST(RunTrace, LaysTheClocksOfHostsTogether) {
  auto channels = make_channels();
  for (int rank = 0; rank < 2; ++rank) {
    auto writer = channels.writer(rank);
    write_result(writer, rank == 0 ? "one" : "two");
    write_step(writer, 0, rank == 0 ? 100 : 7e6);
  }
  const json trace = trace_of(job_of("ddp", 5), channels);
  EXPECT_EQ(event_named(trace, 1, "step 0")["ts"], 0.0);
}

TEST(RunTrace, BeginsWithTheEpochWhichIsBeforeItsFirstStep) {
  auto channels = make_channels();
  for (int rank = 0; rank < 2; ++rank) {
    auto writer = channels.writer(rank);
    write_result(writer, "node", {{.begin_s = 99.5 + rank, .end_s = 112.0 + rank}});
    write_step(writer, 0, 100 + rank);
  }
  const json trace = trace_of(job_of("ddp", 5), channels);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  EXPECT_EQ(event_named(trace, 0, "epoch 0")["ts"], 0.0);
  EXPECT_EQ(event_named(trace, 0, "step 0")["ts"], 0.5e6);
  EXPECT_EQ(event_named(trace, 1, "epoch 0")["ts"], 1e6);
}

// Speedscope, for one, adds doubles; Perfetto cuts off to whole nanoseconds.
TEST(RunTrace, NestsAndJoinsEventsExactlyWhicheverNumbersAViewerComputesWith) {
  report::Trace trace;
  trace.processes = {{.id = 0, .name = "rank 0", .threads = {{0, "steps"}}, .label = ""}};
  double begin_s = 1.0 / 3;
  for (int step = 0; step < 2000; ++step) {
    const double middle_s = begin_s + 1.1e-3 / 7, end_s = begin_s + 1.3e-3 / 3;
    const auto add = [&trace](const char* category, double from_s, double to_s) {
      trace.events.push_back({.name = category,
                              .category = category,
                              .process = 0,
                              .thread = 0,
                              .begin_s = from_s,
                              .end_s = to_s,
                              .arguments = {}});
    };
    add("step", begin_s, end_s);
    add("phase", begin_s, middle_s);
    add("phase", middle_s, end_s);
    add("layer", middle_s + 1e-9, middle_s + 30e-9);  // shorter than a tick
    begin_s = end_s;
  }
  const json document = json::parse(report::to_chrome_json(trace));
  EXPECT_THAT(test::trace_problems(document), IsEmpty());
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double ns = event["ts"].get<double>() * 1e3, length_ns = event["dur"].get<double>() * 1e3;
    EXPECT_TRUE(ns == std::floor(ns) && length_ns == std::floor(length_ns)) << event;
  }
}

TEST(RunTrace, TellsRunsOfEqualStrategyAndDevicesApart) {
  auto channels = make_channels(3);
  auto writer = channels.writer(0);
  write_result(writer, "node");
  write_step(writer, 0, 100);
  report::Trace trace;
  TrainingJob job = job_of("ddp", 5);
  for (const char* title : {"ddp, batch 32", "ddp, batch 64"}) {
    job.title = title;
    add_run(trace, job, channels);
  }
  const json document = json::parse(report::to_chrome_json(trace));
  EXPECT_THAT(test::process_names(document),
              ElementsAre("ddp, batch 32, rank 0", "ddp, batch 64, rank 0"));
  for (const char* title : {"ddp, batch 32", "ddp, batch 64"}) {
    EXPECT_TRUE(document["otherData"].contains(std::string("dropped of ") + title)) << title;
  }
}

TEST(RunTrace, HasATrackForEachReplicaOfAProcess) {
  auto channels = launch::RankChannels::create(
      {.ranks = 1, .step_capacity = 10, .bucket_capacity = 10, .trace_capacity = 100});
  auto writer = channels.writer(0);
  write_result(writer, "node");
  write_step(writer, 0, 100);
  const auto add = [&](Phase phase, double from, double to) {
    writer.append(TraceRecord{.step = 0,
                              .kind = TraceRecord::Kind::phase,
                              .which = static_cast<std::uint32_t>(phase),
                              .replica = 1,
                              .begin_s = 100 + from,
                              .end_s = 100 + to});
  };
  add(Phase::forward, 1, 2);
  add(Phase::gather, 2, 3);
  const json trace = trace_of(job_of("dp", 5), channels);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  EXPECT_THAT(test::process_names(trace),
              ElementsAre("dp on 2 devices, rank 0", "dp on 2 devices, rank 1"));
  EXPECT_EQ(test::count_events(trace, 0, "step"), 1);
  EXPECT_EQ(test::count_events(trace, 0, "phase", "forward"), 1);
  EXPECT_EQ(test::count_events(trace, 1, "step"), 1);
  EXPECT_EQ(test::count_events(trace, 1, "phase", "backward"), 0);
  EXPECT_EQ(event_named(trace, 1, "forward")["dur"], 1e6);
  EXPECT_EQ(test::count_events(trace, 1, "phase", "gather"), 1);
}

TEST(RunTrace, SaysWhatDidNotFit) {
  auto channels = make_channels(3);
  auto writer = channels.writer(0);
  write_result(writer, "node");
  write_step(writer, 0, 100);
  const json trace = trace_of(job_of("ddp", 5), channels);
  EXPECT_EQ(trace["otherData"]["dropped of ddp on 2 devices"], "1 phases and layers");
}

TEST(RunTrace, OfARunWithoutAStepHasNoProcess) {
  const json trace = trace_of(job_of("ddp", 5), make_channels());
  EXPECT_THAT(trace["traceEvents"], IsEmpty());
}

}  // namespace
}  // namespace ddpbench::bench
