// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The verdict must find the known cause of each report. Times of a step are in milliseconds.
#include "reports/why/why.h"

#include <gtest/gtest.h>

#include "tests/reports/why_support.h"

namespace ddpbench::report {
namespace {

TEST(Why, FindsASlowLinkWhereRanksArriveTogether) {
  const Step step = {.comm = 40, .exposed = 30, .wait = 0.2, .wait_exposed = 0.2};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::slow_link);
  // 1.69 MB in 40 ms; 30 of 49.4 ms.
  EXPECT_SAYS(verdict.sentence, "all-reduce not hidden is 61 % of the step (30.0 ms of 49.4 ms)");
  EXPECT_SAYS(verdict.sentence, "busbw 0.042 GB/s");
  EXPECT_SAYS(verdict.advice, "--batch-size");
  EXPECT_NEAR(*part_of(verdict, "comm_exposed_s").seconds.value, 30 * kMs, kRounding);
}

TEST(Why, BlamesTheLastBucketForWhatCouldBeHidden) {
  const Step step = {.comm = 10, .exposed = 10};
  report::Run run = make_run("ddp", {step, step});
  run.devices[0].buckets = {bucket(0, 1.2e6, 18.1, 18.2, 18.3, 28.3)};
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::exposed_communication);
  EXPECT_SAYS(verdict.sentence,
              "all-reduce not hidden is 34 % of the step (10.0 ms of 29.2 ms): the only bucket of "
              "1.2 MB starts after backward ends");
  EXPECT_EQ(verdict.advice, "try a smaller --first-bucket-mb");
}

TEST(Why, CountsWhatAHookSends) {
  const Step step = {.comm = 22, .exposed = 10};
  report::Run run = make_run("ddp", {step, step});
  run.strategy_options["comm_hook"] = "topk:1";
  run.devices[0].buckets = {bucket(0, 25'000, 20, 20, 20, 40)};
  const Verdict verdict = verdict_of(run);
  EXPECT_SAYS(verdict.sentence, ": 25 kB of gradients take 22.0 ms, longer than");
}

// However long it takes: no backward could hide it.
TEST(Why, SaysThatWeightsAreAveraged) {
  const Step step = {.comm = 22, .exposed = 22};
  report::Run run = make_run("localsgd", {step, step});
  run.strategy_options["sync_every"] = "4";
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::exposed_communication);
  EXPECT_SAYS(verdict.sentence, "averaging 1.7 MB of weights every 4 steps, with nothing computed");
  EXPECT_EQ(verdict.advice, "try --sync-every=8, which goes further from one device");
}

TEST(Why, SaysThatWeightsAreGatheredWhereTheirBucketsAreLate) {
  const Step step = {.comm = 12, .exposed = 10};
  report::Run run = make_run("zero1", {step, step});
  run.devices[0].buckets = {bucket(0, 1.6e6, 18, 18, 18, 20),
                            bucket(1, 1.6e6, 20.8, 20.8, 20.8, 28.8)};
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::exposed_communication);
  EXPECT_SAYS(verdict.sentence, "gathering weights after the update, with nothing computed");
  EXPECT_SAYS(verdict.advice, "a larger --batch-size");
  run.strategy = "ddp";
  EXPECT_SAYS(verdict_of(run).sentence, "the last bucket of 1.6 MB");
}

// Its gathers hide behind forward, too, which takes 6 ms.
TEST(Why, SaysWhatUnitsOfWeightsTake) {
  const Step step = {.comm = 16, .exposed = 10};
  const report::Run run = make_run("zero3", {step, step});
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::exposed_communication);
  EXPECT_SAYS(verdict.sentence, "1.7 MB of gradients, and as many of weights twice, take 16");
  EXPECT_EQ(verdict.advice, "try another --unit-mb");
}

TEST(Why, AdvisesASmallerCapWhenALargeBucketComesLast) {
  const Step step = {.comm = 10, .exposed = 8};
  report::Run run = make_run("ddp", {step, step});
  run.devices[0].buckets = {bucket(0, 1e6, 8, 8, 8, 10),
                            bucket(1, 8 * 1048576, 18.2, 18.2, 18.3, 26.3)};
  EXPECT_EQ(verdict_of(run).advice, "try a smaller --bucket-cap-mb");
}

TEST(Why, AdvisesTheBatchOptionOfTheScalingMode) {
  const Step step = {.comm = 40, .exposed = 30, .wait = 0.2, .wait_exposed = 0.2};
  report::Run run = make_run("ddp", {step, step});
  EXPECT_SAYS(verdict_of(run).advice, "a larger --batch-size");
  run.scaling_mode = "strong";
  const Report report = report_of(run);
  EXPECT_SAYS(explain(report, report.runs[1], Lender(report)).advice,
              "a larger --global-batch-size");
}

TEST(Why, AdvisesOverlapWhereItIsOff) {
  const Step step = {.comm = 10, .exposed = 10};
  report::Run run = make_run("ddp", {step, step});
  run.strategy_options["overlap"] = "off";
  EXPECT_EQ(verdict_of(run).advice, "try --overlap=on");
}

TEST(Why, FindsASlowRankByArrivalTimesWhenPhasesAreEqual) {
  const Step waiting = {.comm = 1, .exposed = 0.5, .wait = 9, .wait_exposed = 9};
  const Step late = {.comm = 1, .exposed = 0.5, .wait = 0.1, .wait_exposed = 0.1, .gap = 9.1};
  const Verdict verdict = verdict_of(make_run("ddp", {waiting, waiting, late, waiting}));
  EXPECT_EQ(verdict.cause, Cause::slow_rank);
  EXPECT_SAYS(verdict.sentence, "waiting for rank 2 (cpu:2 on node) is 31 % of the step");
  EXPECT_SAYS(verdict.sentence, "none of its phases takes longer");
  EXPECT_NEAR(*part_of(verdict, "straggler_wait_s").seconds.value, 9 * kMs, kRounding);
}

TEST(Why, NamesThePhaseThatMakesARankSlow) {
  const Step waiting = {.wait = 6, .wait_exposed = 6};
  const Step late = {.backward = 18};
  const Verdict verdict = verdict_of(make_run("ddp", {waiting, late}));
  EXPECT_EQ(verdict.cause, Cause::slow_rank);
  EXPECT_SAYS(verdict.sentence, "rank 1 (cpu:1 on node)");
  EXPECT_SAYS(verdict.sentence, "backward takes 6.00 ms longer there than on the others");
}

// Of ranks on several hosts, rank 0 sees only its own host.
TEST(Why, BlamesNoRankAloneWhereOtherLoadWasNotMeasured) {
  const Step waiting = {.wait = 6, .wait_exposed = 6};
  const Step late = {.backward = 18};
  report::Run run = make_run("ddp", {waiting, late});
  const std::string words = "; other load was not measured; this may be all of it";
  run.conditions.emplace().other_load_ratio = Figure::of(0.02);
  EXPECT_FALSE(says(verdict_of(run).sentence, words));
  run.conditions->other_load_ratio = Figure::missing("rank 0 does not see it of every rank");
  EXPECT_SAYS(verdict_of(run).sentence, words);
  run.injected = "slow";
  EXPECT_FALSE(says(verdict_of(run).sentence, words));
}

TEST(Why, NamesTheLoaderOfOneRank) {
  const Step waiting = {.wait = 8, .wait_exposed = 8};
  const Step late = {.input = 8.1};
  const Verdict verdict = verdict_of(make_run("ddp", {late, waiting}));
  EXPECT_EQ(verdict.cause, Cause::slow_rank);
  EXPECT_SAYS(verdict.sentence, "rank 0 (cpu:0 on node)");
  EXPECT_SAYS(verdict.sentence, "input wait takes 8.00 ms longer");
}

TEST(Why, BlamesNobodyWhenAllWaitInTurn) {
  const Step step = {.wait = 5, .wait_exposed = 5};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::imbalance);
  EXPECT_SAYS(verdict.sentence, "none is always the last");
}

TEST(Why, BlamesNoRankForLittleWaiting) {
  const Step waiting = {.comm = 3, .exposed = 3, .wait = 1, .wait_exposed = 1};
  const Step late = {.comm = 3, .exposed = 3, .wait = 0.1, .wait_exposed = 0.1, .gap = 1.1};
  // 0.9 of 20.5 ms; with this rank's wait at the end of the step it would be 6 %.
  const Step only_waiting = {.wait = 0.9, .wait_exposed = 0.9};
  const Step only_late = {.gap = 1.6};
  EXPECT_EQ(verdict_of(make_run("ddp", {waiting, late})).cause, Cause::exposed_communication);
  const Verdict verdict = verdict_of(make_run("ddp", {only_waiting, only_late}), {.gap = 0.1});
  EXPECT_EQ(verdict.cause, Cause::imbalance) << verdict.sentence;
}

TEST(Why, BlamesNoRankForWhatScatterExplains) {
  const Step waiting = {.wait = 6, .wait_exposed = 6};
  const Step late = {.wait = 1, .wait_exposed = 1, .gap = 5.2};
  report::Run run = make_run("ddp", {waiting, late});
  run.step.samples_s.resize(9, 0.025);
  run.step.time_s->iqr = Figure::of(1 * kMs);  // 2 / sqrt(9) of this IQR is 0.7 ms
  EXPECT_EQ(verdict_of(run).cause, Cause::slow_rank);
  run.step.time_s->iqr = Figure::of(10 * kMs);
  EXPECT_EQ(verdict_of(run).cause, Cause::imbalance);
  run.step.samples_s.resize(900, 0.025);  // more steps give more certainty
  EXPECT_EQ(verdict_of(run).cause, Cause::slow_rank);
}

TEST(Why, GivesNoAdviceForSeveralSmallLosses) {
  const Step step = {.input = 0.8, .forward = 6.5, .comm = 2, .exposed = 0.9, .gap = 0.9};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::small_losses);
  // The step takes 0.7 + 0.5 + 0.9 + 0.7 ms more than 19.2 ms.
  EXPECT_EQ(verdict.sentence,
            "13 % is lost in several small parts; the largest: communication not hidden, 4 %");
  EXPECT_EQ(verdict.advice, "");
}

TEST(Why, IgnoresWaitingThatBackwardHides) {
  const Step waiting = {.comm = 2, .wait = 9, .wait_exposed = 0};
  const Step late = {.comm = 2};
  EXPECT_EQ(verdict_of(make_run("ddp", {waiting, late})).cause, Cause::scales);
}

TEST(Why, FindsStarvedInput) {
  const Step step = {.input = 15, .comm = 1, .exposed = 0.5};
  Report report = report_of(make_run("ddp", {step, step}));
  const Verdict verdict = explain(report, report.runs.back(), Lender(report));
  EXPECT_EQ(verdict.cause, Cause::starved_input);
  EXPECT_SAYS(verdict.sentence, "waiting for input is 43 % of the step");
  EXPECT_SAYS(verdict.advice, "--loader-workers");
  report.generator.name = "ddpbench-import";  // of a program that has no such option
  EXPECT_EQ(explain(report, report.runs.back(), Lender(report)).advice, "");
}

TEST(Why, DoesNotBlameInputThatSingleWaitsForToo) {
  const Step step = {.input = 15, .comm = 3, .exposed = 3};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}), {.input = 15});
  EXPECT_EQ(verdict.cause, Cause::exposed_communication);
}

TEST(Why, FindsATinyNetwork) {
  const Step single = {.input = 0.005,
                       .forward = 0.04,
                       .backward = 0.08,
                       .loss = 0.002,
                       .update = 0.01,
                       .gap = 0.02};
  Step step = single;
  step.comm = step.exposed = 0.06;
  step.wait = step.wait_exposed = 0.05;
  step.gap = 0.06;
  report::Run run = make_run("ddp", {step, step});
  run.parameters = 2000;
  const Verdict verdict = verdict_of(run, single);
  EXPECT_EQ(verdict.cause, Cause::tiny_network);
  EXPECT_SAYS(verdict.sentence, "the network is too small: 0.13 ms of compute");
  EXPECT_SAYS(verdict.sentence, "8 kB");
  // 0.06 + 0.05 + 0.06 of 0.307 ms, without the wait for input.
  EXPECT_SAYS(verdict.sentence, "meet 0.17 ms of latency and overhead");
  EXPECT_SAYS(verdict.sentence, "55 % of the step");
}

TEST(Why, DoesNotCallALargeStepTiny) {
  const Step step = {.comm = 12, .exposed = 12};
  report::Run run = make_run("ddp", {step, step});
  run.parameters = 2000;  // few bytes that take long, as on a link with high latency
  EXPECT_EQ(verdict_of(run).cause, Cause::exposed_communication);
}

TEST(Why, FindsOversubscription) {
  const Step step = {.forward = 12, .backward = 24};
  report::Run run = make_run("ddp", {step, step, step, step});
  run.oversubscribed = true;
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::oversubscription);
  EXPECT_SAYS(verdict.sentence, "4 threads of 4 devices share 2 cores and take turns");
  EXPECT_EQ(verdict.advice, "use no more devices than there are");
  run.device = "cuda";
  EXPECT_SAYS(verdict_of(run).sentence, "oversubscribed: ranks share GPUs or cores and take turns");
}

TEST(Why, CallsOversubscriptionBeforeGoodScaling) {
  const Step step = {.comm = 5, .exposed = 0.5};
  report::Run run = make_run("ddp", {step, step});
  EXPECT_EQ(verdict_of(run).cause, Cause::scales);
  run.oversubscribed = true;
  EXPECT_EQ(verdict_of(run).cause, Cause::oversubscription);
}

TEST(Why, TellsWhatBatchNormExchanges) {
  const Step step = {.comm = 0.4, .exposed = 0.2, .gap = 9.2};
  report::Run run = make_run("ddp", {step, step});
  EXPECT_EQ(std::ranges::count(verdict_of(run).parts, "sync_batch_norm_s", &VerdictPart::key), 0);
  run.phases["sync_batch_norm_s"] = Figure::of(9 * kMs);
  for (auto& device : run.devices) device.phases["sync_batch_norm_s"] = Figure::of(9 * kMs);
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::sync_batch_norm);
  EXPECT_SAYS(verdict.sentence, "exchanging statistics of batch norm is 32 % of the step");
  EXPECT_NEAR(*part_of(verdict, "sync_batch_norm_s").seconds.value, 9 * kMs, kRounding);
}

TEST(Why, FindsTheRankThatOthersAwaitInExchangesOfBatchNorm) {
  const Step fast = {.gap = 10.2}, slow = {.backward = 21, .gap = 1.2};
  report::Run run = make_run("ddp", {fast, fast, slow});
  run.phases["sync_batch_norm_s"] = Figure::of(10 * kMs);
  for (std::size_t i = 0; i < 3; ++i) {
    run.devices[i].phases["sync_batch_norm_s"] = Figure::of((i == 2 ? 1 : 10) * kMs);
  }
  const Verdict verdict = verdict_of(run);
  EXPECT_SAYS(verdict.sentence, "rank 2");
  EXPECT_NEAR(*part_of(verdict, "sync_batch_norm_s").seconds.value, 1 * kMs, kRounding);
  EXPECT_NEAR(*part_of(verdict, "straggler_wait_s").seconds.value, 9 * kMs, kRounding);
}

TEST(Why, BlamesOtherWorkOnTheMachineBeforeAnythingElse) {
  const Step step = {.comm = 10, .exposed = 10};
  report::Run run = make_run("ddp", {step, step});
  run.conditions = Conditions{};
  run.conditions->other_load_ratio = Figure::of(0.7);
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::busy_machine);
  EXPECT_SAYS(
      verdict.sentence,
      "what is lost is 34 % of the step (10.0 ms of 29.2 ms), but other programs used 70 % of "
      "the CPU");
  EXPECT_EQ(verdict.advice, "measure on an idle machine");
  run.conditions->other_load_ratio = Figure::of(0.05);  // below the limit of the warning
  EXPECT_EQ(verdict_of(run).cause, Cause::exposed_communication);
  run.conditions->stolen_ratio = Figure::of(0.3);
  EXPECT_EQ(verdict_of(run).cause, Cause::busy_machine);
  run.injected = "slow:rank=1,phase=backward,percent=2000";
  EXPECT_EQ(verdict_of(run).cause, Cause::exposed_communication);
}

TEST(Why, FindsTooFewServers) {
  const Step step = {.comm = 4, .exposed = 4, .wait = 10, .wait_exposed = 10};
  report::Run run = make_run("ps", {step, step, step, step});
  run.servers = 1;
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::servers);
  EXPECT_SAYS(verdict.sentence,
              "is 42 % of the step (14.0 ms of 33.2 ms): 4 workers share 1 server");
  EXPECT_SAYS(verdict.advice, "--servers=4");
  EXPECT_NEAR(*part_of(verdict, "server_wait_s").seconds.value, 10 * kMs, kRounding);
}

TEST(Why, TellsASlowWorkerFromASlowServer) {
  const Step waiting = {.wait = 10, .wait_exposed = 10};
  const Step late = {.backward = 20, .wait = 2, .wait_exposed = 2};
  report::Run run = make_run("ps", {waiting, waiting, late});
  run.servers = 3;
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::slow_rank);
  EXPECT_SAYS(verdict.sentence, "rank 2");
  EXPECT_NEAR(*part_of(verdict, "straggler_wait_s").seconds.value, 8 * kMs, kRounding);
}

// No rank waits for the slowest: a step of them all is as long as none's.
TEST(Why, SplitsTheStepOfOneWorkerOfAsynchronousServers) {
  const Step fast = {.wait = 2, .wait_exposed = 2};
  report::Run run = make_run("ps", {fast, {.backward = 200}});
  run.servers = 1;
  run.pushes = report::PushSection{.updates = 10};
  const double fast_s = *run.devices[0].step_time_median_s.value;
  run.step.time_s->median = 5 * fast_s;
  const Verdict verdict = verdict_of(run);
  EXPECT_NEAR(verdict.step_s, fast_s, kRounding);
  EXPECT_LT(*part_of(verdict, "straggler_wait_s").seconds.value, 2.1 * kMs);
}

TEST(Why, FindsComputeThatOverlapSlows) {
  const Step step = {.backward = 17, .comm = 9, .exposed = 0.2};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::slowed_by_overlap);
  EXPECT_NEAR(*part_of(verdict, "overlap_slowed_s").seconds.value, 5 * kMs, kRounding);
  EXPECT_NEAR(*part_of(verdict, "compute_slowed_s").seconds.value, 0, kRounding);
}

TEST(Why, FindsSharedMemoryBandwidth) {
  const Step step = {.forward = 9, .backward = 18, .comm = 1, .exposed = 0.2};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::slowed_compute);
  EXPECT_SAYS(verdict.sentence, "forward takes 1.50 times single's, backward 1.50 times");
}

TEST(Why, MeasuresStrongScalingAgainstTheShareOfTheWork) {
  const Step step = {.input = 0.05, .forward = 4.5, .backward = 9, .loss = 0.05, .update = 0.8};
  report::Run run = make_run("ddp", {step, step});
  run.scaling_mode = "strong";
  run.global_batch_size = 64;
  run.per_device_batch_size = 32;
  Report report = report_of(run);
  report.runs[0].scaling_mode = "strong";
  const Verdict verdict = explain(report, report.runs[1], Lender(report));
  EXPECT_EQ(verdict.cause, Cause::slowed_compute);
  // 18.9 ms of single's compute are 9.45 ms on each of two devices.
  EXPECT_NEAR(*part_of(verdict, "compute_s").seconds.value, 9.45 * kMs, kRounding);
  EXPECT_NEAR(*part_of(verdict, "compute_slowed_s").seconds.value, 4.9 * kMs, kRounding);
  EXPECT_SAYS(verdict.sentence, "as smaller batches compute less efficiently");
}

TEST(Why, FindsHostOverhead) {
  const Step step = {.gap = 8};
  EXPECT_EQ(verdict_of(make_run("ddp", {step, step})).cause, Cause::host_overhead);
}

TEST(Why, SaysThatThereIsNothingToGain) {
  const Step step = {.comm = 5, .exposed = 0.5};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::scales);
  EXPECT_EQ(verdict.sentence, "scales: 97 % efficiency; nothing large to gain");
  EXPECT_EQ(verdict.advice, "");
}

TEST(Why, NamesALossWithoutABaselineAndSaysWhatItCannotCompare) {
  const Step step = {.comm = 30, .exposed = 30};
  Report report = report_of(make_run("ddp", {step, step}));
  report.runs.erase(report.runs.begin());
  const Verdict verdict = explain(report, report.runs[0], Lender(report));
  EXPECT_EQ(verdict.cause, Cause::slow_link);
  EXPECT_SAYS(verdict.sentence, "no single run in this report");
  const VerdictPart& slowed = part_of(verdict, "compute_slowed_s");
  EXPECT_FALSE(slowed.seconds.value);
  EXPECT_EQ(slowed.seconds.reason, "no single run in this report");
}

TEST(Why, ClaimsNothingWithoutABaselineWhenComputeIsTheStep) {
  const Step step = {.comm = 5, .exposed = 0.2};
  Report report = report_of(make_run("ddp", {step, step}));
  report.runs.erase(report.runs.begin());
  const Verdict verdict = explain(report, report.runs[0], Lender(report));
  EXPECT_EQ(verdict.cause, Cause::unknown);
  EXPECT_SAYS(verdict.sentence, "compute is 97 % of the step");
  EXPECT_EQ(verdict.advice, "add single to --strategy");
}

TEST(Why, AdvisesToSplitAPipelineOtherwise) {
  const Step step = {.comm = 5, .exposed = 0.2};
  report::Run run = make_run("pipeline", {step, step});
  run.strategy_options = {{"stages", "2"}, {"micro_batches", "4"}};
  for (DeviceRow& device : run.devices) device.phases["stage_wait_s"] = Figure::of(0.001);
  EXPECT_EQ(verdict_of(run).advice, "try --cut and more --micro-batches");
}

TEST(Why, SaysThatABusyMachineBlursTheVerdict) {
  const Step step = {.comm = 40, .exposed = 30};
  report::Run run = make_run("ddp", {step, step});
  EXPECT_FALSE(says(verdict_of(run).sentence, "unsure"));
  run.step.time_s->iqr = Figure::of(0.31 * run.step.time_s->median);
  EXPECT_SAYS(verdict_of(run).sentence, "(unsure: step times vary by 31 %)");
}

TEST(Why, SaysThatPhasesWereNotObserved) {
  report::Run run = make_run("ddp", {Step{}, Step{}});
  for (auto* phases : {&run.phases, &run.devices[0].phases, &run.devices[1].phases}) {
    for (auto& [name, figure] : *phases) figure = Figure::missing("phases were not observed");
  }
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::unknown);
  EXPECT_EQ(verdict.sentence, "cannot be told: phases were not observed");
  EXPECT_TRUE(verdict.parts.empty());
}

TEST(Why, ExplainsReportsWithThePhasesOfTheSlowestRankAlone) {
  const Step step = {.comm = 40, .exposed = 30};
  report::Run run = make_run("ddp", {step, step});
  for (DeviceRow& device : run.devices) device.phases.clear();
  run.phases.erase("comm_wait_exposed_s");
  EXPECT_EQ(verdict_of(run).cause, Cause::slow_link);
}

TEST(Why, CutsPartsThatExceedTheStepAlike) {
  const Step step = {.comm = 40, .exposed = 30};
  report::Run run = make_run("ddp", {step, step});
  run.step.time_s->median = 0.5 * step.total() * kMs;
  const Verdict verdict = verdict_of(run);  // checks the sum of the parts
  EXPECT_NEAR(*part_of(verdict, "comm_exposed_s").share.value, 30 / (step.total() - step.gap),
              1e-9);
}

TEST(Why, SurvivesEveryRunOfTheSampleReport) {
  const Report report = test::sample_report();
  for (const report::Run& run : report.runs) {
    if (run.world_size > 1) {
      EXPECT_NE(explain(report, run, Lender(report)).sentence, "");
    }
  }
}

}  // namespace
}  // namespace ddpbench::report
