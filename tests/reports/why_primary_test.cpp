// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What is said of dp, whose primary device does more than the others.
#include <gtest/gtest.h>

#include "tests/reports/why_support.h"

namespace ddpbench::report {
namespace {

TEST(WhyOfDp, FindsThePrimaryDevicesBottleneck) {
  const Step step = {.comm = 9, .exposed = 9};
  report::Run run = make_run("dp", {step, step});
  for (const char* name : {"scatter_s", "replicate_s", "gather_s", "reduce_s"}) {
    run.phases[name] = Figure::of(2.25 * kMs);
  }
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::primary_device);
  EXPECT_SAYS(verdict.sentence,
              "scatter 2.25 ms, replicate 2.25 ms, gather 2.25 ms, reduce 2.25 ms");
  EXPECT_EQ(verdict.advice, "try --strategy=ddp");
}

// A run of dp whose transfers take 0.1, 0.2, 0.1 and 0.2 ms, beside which the primary waits 8.4 ms.
report::Run waiting_dp(double exposed = 0.6, double wait = 8.4) {
  const Step step = {.comm = exposed, .exposed = exposed, .wait = wait, .wait_exposed = wait};
  report::Run run = make_run("dp", {step, step});
  run.phases["scatter_s"] = run.phases["gather_s"] = Figure::of(0.1 * kMs);
  run.phases["replicate_s"] = run.phases["reduce_s"] = Figure::of(0.2 * kMs);
  return run;
}

TEST(WhyOfDp, TellsDpsTransfersFromItsWaiting) {
  const Verdict verdict = verdict_of(waiting_dp());
  EXPECT_EQ(verdict.cause, Cause::imbalance);
  EXPECT_SAYS(verdict.sentence,
              "waiting for a slower device is 30 % of the step (8.40 ms of 28.2 ms)");
  EXPECT_NEAR(*part_of(verdict, "straggler_wait_s").seconds.value, 8.4 * kMs, kRounding);
  EXPECT_NEAR(*part_of(verdict, "comm_exposed_s").seconds.value, 0.6 * kMs, kRounding);
}

TEST(WhyOfDp, NamesTheReplicaThatDpWaitsFor) {
  report::Run run = waiting_dp();
  run.devices[1].phases["backward_s"] = Figure::of(20 * kMs);
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::slow_rank);
  EXPECT_SAYS(verdict.sentence,
              "waiting for rank 1 (cpu:1 on node) is 30 % of the step (8.40 ms of 28.2 ms): "
              "backward takes 8.00 ms longer there than on the others");
}

// Device 0 waits 3 ms for the lock, and then for the other one, which waited 8 ms.
TEST(WhyOfDp, TellsTheEmulatedLockFromSlowHardware) {
  report::Run run = waiting_dp();
  run.devices[0].phases["interpreter_wait_s"] = Figure::of(3 * kMs);
  run.devices[0].phases["backward_s"] = Figure::of(9 * kMs);
  run.devices[1].phases["interpreter_wait_s"] = Figure::of(8 * kMs);
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::interpreter_lock);
  EXPECT_NEAR(*part_of(verdict, "interpreter_wait_s").seconds.value, 8 * kMs, kRounding);
  EXPECT_NEAR(*part_of(verdict, "straggler_wait_s").seconds.value, 3.4 * kMs, kRounding);
  EXPECT_SAYS(verdict.sentence,
              "waiting for the emulated interpreter lock is 28 % of the step (8.00 ms of 28.2 ms)");
  EXPECT_EQ(verdict.advice, "try --strategy=ddp with a device a process");
}

TEST(WhyOfDp, NamesPartsOfThePrimaryThatAddUp) {
  const Step step = {.comm = 9, .exposed = 9};
  report::Run run = make_run("dp", {step, step});
  for (const char* name : {"scatter_s", "replicate_s", "gather_s", "reduce_s"}) {
    run.phases[name] = Figure::of(3 * kMs);  // 12 ms: medians need not add up
  }
  const std::string sentence = verdict_of(run).sentence;
  EXPECT_SAYS(sentence,
              "(9.00 ms of 28.2 ms): scatter 2.25 ms, replicate 2.25 ms, gather 2.25 ms, reduce "
              "2.25 ms run");
}

// What medians do not explain is no waiting.
TEST(WhyOfDp, NamesTransfersThatAreLongInSomeStepsOnly) {
  const Verdict verdict = verdict_of(waiting_dp(9, 0.1));
  EXPECT_EQ(verdict.cause, Cause::primary_device);
  EXPECT_SAYS(verdict.sentence,
              "(9.00 ms of 28.3 ms): scatter 0.10 ms, replicate 0.20 ms, gather 0.10 ms, reduce "
              "0.20 ms, longer ones in some steps 8.40 ms run");
}

}  // namespace
}  // namespace ddpbench::report
