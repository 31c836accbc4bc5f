// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Traces and verdicts of real runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>

#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::count_events;
using test::Program;
using test::small_run;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kTracedConfig = R"({
  "model": "lenet5", "batch_size": 8, "epochs": 1, "steps": 6, "warmup_steps": 2,
  "verify_steps": 0, "timeout": 60,
  "dataset": {"name": "mnist", "on_missing": "synthesize", "mean": 0.1307, "std": 0.3081}})";

json trace_of(const Program& program) { return json::parse(program.read("trace.json")); }

TEST(Trace, HasEveryRankPhaseAndBucketOfTheFirstSteps) {
  Program program;
  program.write("lenet.json", kTracedConfig);
  const auto result =
      program.run(small_run("ddp", {"--trace=trace.json", "--trace-steps=4", "--steps=6",
                                    "--first-bucket-mb=0.1", "--bucket-cap-mb=0.1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("trace: trace.json\nmore: ddpbench why|chart|html report.json\nreport: "));
  const json trace = trace_of(program);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  EXPECT_THAT(test::process_names(trace),
              ElementsAre("ddp on 2 devices, rank 0", "ddp on 2 devices, rank 1"));
  const json devices = program.report()["runs"][0]["devices"];
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(count_events(trace, rank, "step"), 4);
    for (const char* phase : {"data_wait", "forward", "loss", "backward", "optimizer"}) {
      EXPECT_EQ(count_events(trace, rank, "phase", phase), 4) << phase;
    }
    EXPECT_GE(count_events(trace, rank, "layer", "conv1"), 8);
    const json buckets = devices[rank]["buckets"];
    EXPECT_GE(buckets.size(), 2u);
    for (const json& bucket : buckets) {
      const std::string name = "bucket " + std::to_string(bucket["bucket"].get<int>());
      EXPECT_EQ(count_events(trace, rank, "bucket", name), 4) << name;
    }
  }
}

// Whichever side updates, and whatever came before the timed steps.
TEST(Trace, HasTheServersOfPs) {
  for (const char* update : {"server", "worker"}) {
    Program program;
    program.write("lenet.json", kTracedConfig);
    const auto result = program.run(
        small_run("ps", {"--trace=trace.json", "--trace-steps=4", "--steps=6", "--servers=2",
                         "--verify-steps=2", std::string("--ps-update=") + update}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json trace = trace_of(program);
    EXPECT_THAT(test::trace_problems(trace), IsEmpty());
    EXPECT_THAT(test::process_names(trace),
                ElementsAre("ps on 2 devices and 2 servers, rank 0",
                            "ps on 2 devices and 2 servers, rank 1",
                            "ps on 2 devices and 2 servers, rank 2 (server)",
                            "ps on 2 devices and 2 servers, rank 3 (server)"));
    for (const int server : {2, 3}) {
      EXPECT_EQ(count_events(trace, server, "step"), 4);
      for (const char* phase : {"receive gradients", "average", "send the result"}) {
        EXPECT_EQ(count_events(trace, server, "phase", phase), 4) << phase;
      }
      EXPECT_EQ(count_events(trace, server, "phase", "update"),
                std::string(update) == "server" ? 4 : 0);
    }
  }
}

// A server that serves workers one by one receives each one's gradients by themselves.
TEST(Trace, HasTheTracedStepsOfAsynchronousServers) {
  Program program;
  program.write("lenet.json", kTracedConfig);
  const auto result =
      program.run(small_run("ps", {"--trace=trace.json", "--trace-steps=4", "--steps=6",
                                   "--verify-steps=0", "--ps-mode=async", "--max-staleness=1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json trace = trace_of(program);
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  EXPECT_EQ(count_events(trace, 2, "step"), 4);
  EXPECT_GE(count_events(trace, 2, "phase", "update"), 4 * 2);
}

TEST(Trace, OfAnInterruptedRunHasWhatWasDone) {
  std::ptrdiff_t steps = 0;
  // Interrupts well past set-up, in the epoch. The time of that depends on the machine's load.
  for (unsigned pause_s = 3; steps == 0 && pause_s < 50; pause_s *= 4) {
    Program program;
    program.write("lenet.json", kTracedConfig);
    const auto result = program.run(
        small_run("ddp", {"--trace=trace.json", "--epochs=5000", "--steps=100000", "--timeout=0"}),
        [&](int pid) {
          EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 3; }));
          ::sleep(pause_s);
          ::kill(pid, SIGINT);
        });
    EXPECT_EQ(result.exit_code, 130) << result.err;
    const json trace = trace_of(program);
    EXPECT_THAT(test::trace_problems(trace), IsEmpty());
    steps = count_events(trace, 0, "step");
  }
  EXPECT_GT(steps, 0);
}

TEST(Trace, IsRefusedBeforeTheTrainingWhereItCouldNotBeWritten) {
  Program program;
  program.write("lenet.json", kTracedConfig);
  program.write("trace.json", "mine");
  const auto result = program.run(small_run("ddp", {"--trace=trace.json"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--trace"));
  EXPECT_EQ(program.read("trace.json"), "mine");
}

// The wait is by far the longest part of the step, so that no load on the machine hides it.
TEST(Verdict, NamesTheRankThatWasMadeSlow) {
  Program program;
  program.write("lenet.json", kTracedConfig);
  const auto result = program.run(
      small_run("single,ddp", {"--steps=60", "--inject=slow:rank=1,phase=backward,percent=2000"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json why = program.report()["runs"][1]["why"];
  EXPECT_EQ(why["cause"], "slow_rank") << why;
  EXPECT_THAT(why["sentence"].get<std::string>(), HasSubstr("waiting for rank 1"));
  EXPECT_THAT(program.run({"why", "report.json"}).out, HasSubstr("Why: ddp on 2 devices: "));
}

TEST(Verdict, ShowsTheDeviceOfDpThatWasMadeSlow) {
  Program program;
  program.write("lenet.json", kTracedConfig);
  const std::string fault = "slow:rank=1,phase=forward,percent=2000";
  const auto result = program.run(small_run("dp", {"--steps=60", "--inject=" + fault}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["injected"], fault);
  const auto forward_s = [&](std::size_t device) {
    return run["devices"][device]["phases"]["forward_s"].get<double>();
  };
  EXPECT_GT(forward_s(1), 4 * forward_s(0)) << run["devices"];
  EXPECT_EQ(
      program.run(small_run("dp", {"--steps=2", "--observe=off", "--force", "--inject=" + fault}))
          .exit_code,
      0);
}

}  // namespace
}  // namespace ddpbench
