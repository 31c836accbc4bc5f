// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports of a known cause: the verdict must find it. All times of a step in milliseconds.
#include "reports/why/why.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/metrics.h"
#include "reports/report_reader.h"
#include "reports/table/table_warnings.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

constexpr double kMs = 1e-3;
constexpr double kRounding = 1e-12;

// What a rank measured; `gap` is host time between the phases.
struct Step {
  double input = 0.1, forward = 6, backward = 12, loss = 0.1, update = 0.8;
  double comm = 0, exposed = 0, wait = 0, wait_exposed = 0, gap = 0.2;
  double total() const {
    return input + forward + backward + loss + update + exposed + wait_exposed + gap;
  }
};

std::map<std::string, Figure> phases_of(const Step& step) {
  return {{"data_wait_s", Figure::of(step.input * kMs)},
          {"forward_s", Figure::of(step.forward * kMs)},
          {"backward_s", Figure::of(step.backward * kMs)},
          {"loss_s", Figure::of(step.loss * kMs)},
          {"optimizer_s", Figure::of(step.update * kMs)},
          {"comm_s", Figure::of(step.comm * kMs)},
          {"comm_exposed_s", Figure::of(step.exposed * kMs)},
          {"comm_wait_s", Figure::of(step.wait * kMs)},
          {"comm_wait_exposed_s", Figure::of(step.wait_exposed * kMs)}};
}

Run make_run(const char* strategy, const std::vector<Step>& ranks) {
  const auto world = static_cast<int>(ranks.size());
  double slowest = 0;
  for (const Step& step : ranks) slowest = std::max(slowest, step.total() * kMs);
  Run run = test::sample_run(strategy, world, 64.0 * world / slowest);
  run.step.time_s = StepStatistics{slowest, 0, slowest, slowest, slowest, slowest, slowest};
  run.step.samples_s = {slowest, slowest, slowest};
  run.phases = phases_of(ranks[0]);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    run.devices[r].phases = phases_of(ranks[r]);
    run.devices[r].step_time_median_s = Figure::of(ranks[r].total() * kMs);
  }
  return run;
}

BucketRow bucket(int index, double bytes, double ready, double start, double arrived, double end) {
  return {index,    static_cast<std::uint64_t>(bytes), ready * kMs, start * kMs, arrived * kMs,
          end * kMs};
}

Report report_of(const Run& run, const Step& single = {}) {
  Report report = test::sample_report();
  report.status = Status::ok;
  report.error.reset();
  report.runs = {make_run("single", {single}), run};
  fill_scaling(report);
  return report;
}

Verdict verdict_of(const Run& run, const Step& single = {}) {
  const Report report = report_of(run, single);
  const Verdict verdict = explain(report, report.runs[1]);
  double sum = 0;
  for (const VerdictPart& part : verdict.parts) {
    EXPECT_TRUE(part.seconds.value) << part.key;
    EXPECT_GE(part.seconds.value.value_or(-1), 0) << part.key;
    sum += part.seconds.value.value_or(0);
  }
  EXPECT_NEAR(sum, verdict.step_s, kRounding);
  return verdict;
}

const VerdictPart& part_of(const Verdict& verdict, const std::string& key) {
  for (const VerdictPart& part : verdict.parts) {
    if (part.key == key) return part;
  }
  ADD_FAILURE() << "no part " << key;
  static const VerdictPart none;
  return none;
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

#define EXPECT_SAYS(text, words) EXPECT_TRUE(says(text, words)) << (text)

TEST(Why, FindsASlowLinkWhereRanksArriveTogether) {
  const Step step = {.comm = 40, .exposed = 30, .wait = 0.2, .wait_exposed = 0.2};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::slow_link);
  // 1.69 MB in 40 ms; 30 of 49.4 ms.
  EXPECT_SAYS(verdict.sentence, "exposed all-reduce is 61 % of the step (30.0 ms of 49.4 ms)");
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
              "exposed all-reduce is 34 % of the step (10.0 ms of 29.2 ms): the only bucket of "
              "1.2 MB starts after backward ends");
  EXPECT_EQ(verdict.advice, "try --first-bucket-mb=0.25");
}

TEST(Why, AdvisesASmallerCapWhenALargeBucketComesLast) {
  const Step step = {.comm = 10, .exposed = 8};
  report::Run run = make_run("ddp", {step, step});
  run.devices[0].buckets = {bucket(0, 1e6, 8, 8, 8, 10),
                            bucket(1, 8 * 1048576, 18.2, 18.2, 18.3, 26.3)};
  EXPECT_EQ(verdict_of(run).advice, "try --bucket-cap-mb=2");
}

TEST(Why, DoesNotAdviseTheCapThatIsInUse) {
  const Step step = {.comm = 10, .exposed = 8};
  report::Run run = make_run("ddp", {step, step});
  run.devices[0].buckets = {bucket(0, 1e6, 8, 8, 8, 10),
                            bucket(1, 8 * 1048576, 18.2, 18.2, 18.3, 26.3)};
  run.strategy_options["bucket_cap_mb"] = "2.5";
  EXPECT_EQ(verdict_of(run).advice, "try --bucket-cap-mb=2");
  for (const char* used : {"2", "0.5"}) {
    run.strategy_options["bucket_cap_mb"] = used;
    EXPECT_SAYS(verdict_of(run).advice, "a larger --batch-size") << used;
  }
  run.devices[0].buckets = {bucket(0, 1.2e6, 18.1, 18.2, 18.3, 28.3)};
  run.strategy_options["first_bucket_mb"] = "0.25";
  EXPECT_SAYS(verdict_of(run).advice, "a larger --batch-size");
}

TEST(Why, AdvisesTheBatchOptionOfTheScalingMode) {
  const Step step = {.comm = 40, .exposed = 30, .wait = 0.2, .wait_exposed = 0.2};
  report::Run run = make_run("ddp", {step, step});
  EXPECT_SAYS(verdict_of(run).advice, "a larger --batch-size");
  run.scaling_mode = "strong";
  const Report report = report_of(run);
  EXPECT_SAYS(explain(report, report.runs[1]).advice, "a larger --global-batch-size");
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
  EXPECT_SAYS(verdict.sentence, "no rank is always the last");
}

TEST(Why, BlamesNoRankForLittleWaiting) {
  const Step waiting = {.comm = 3, .exposed = 3, .wait = 1, .wait_exposed = 1};
  const Step late = {.comm = 3, .exposed = 3, .wait = 0.1, .wait_exposed = 0.1, .gap = 1.1};
  // 0.9 of 20.5 ms, though all that this rank waits at the end of the step makes it 6 %.
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
  run.step.time_s->iqr = 1 * kMs;  // 2 / sqrt(9) of it are 0.7 ms
  EXPECT_EQ(verdict_of(run).cause, Cause::slow_rank);
  run.step.time_s->iqr = 10 * kMs;
  EXPECT_EQ(verdict_of(run).cause, Cause::imbalance);
  run.step.samples_s.resize(900, 0.025);  // more steps, more certain
  EXPECT_EQ(verdict_of(run).cause, Cause::slow_rank);
}

TEST(Why, GivesNoAdviceForSeveralSmallLosses) {
  const Step step = {.input = 0.8, .forward = 6.5, .comm = 2, .exposed = 0.9, .gap = 0.9};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::small_losses);
  // 0.7 + 0.5 + 0.9 + 0.7 more than 19.2 ms.
  EXPECT_EQ(verdict.sentence,
            "13 % is lost in several small parts; the largest is exposed communication, 4 %");
  EXPECT_EQ(verdict.advice, "");
}

TEST(Why, IgnoresWaitingThatBackwardHides) {
  const Step waiting = {.comm = 2, .wait = 9, .wait_exposed = 0};
  const Step late = {.comm = 2};
  EXPECT_EQ(verdict_of(make_run("ddp", {waiting, late})).cause, Cause::scales);
}

TEST(Why, FindsStarvedInput) {
  const Step step = {.input = 15, .comm = 1, .exposed = 0.5};
  const Verdict verdict = verdict_of(make_run("ddp", {step, step}));
  EXPECT_EQ(verdict.cause, Cause::starved_input);
  EXPECT_SAYS(verdict.sentence, "waiting for input is 43 % of the step");
  EXPECT_SAYS(verdict.advice, "--loader-workers");
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
  // 0.06 + 0.05 + 0.06 of 0.307 ms; waiting for input is none of it.
  EXPECT_SAYS(verdict.sentence, "meet 0.17 ms of latency and launch overhead");
  EXPECT_SAYS(verdict.sentence, "55 % of the step");
}

TEST(Why, DoesNotCallALargeStepTiny) {
  const Step step = {.comm = 12, .exposed = 12};
  report::Run run = make_run("ddp", {step, step});
  run.parameters = 2000;  // few bytes that take long: the link's latency
  EXPECT_EQ(verdict_of(run).cause, Cause::exposed_communication);
}

TEST(Why, FindsOversubscription) {
  const Step step = {.forward = 12, .backward = 24};
  report::Run run = make_run("ddp", {step, step, step, step});
  run.oversubscribed = true;
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::oversubscription);
  EXPECT_SAYS(verdict.sentence, "4 workers of 1 thread share 2 cores");
  EXPECT_EQ(verdict.advice, "at most --gpus=2 fit here");
}

TEST(Why, CallsOversubscriptionBeforeGoodScaling) {
  const Step step = {.comm = 5, .exposed = 0.5};
  report::Run run = make_run("ddp", {step, step});
  EXPECT_EQ(verdict_of(run).cause, Cause::scales);
  run.oversubscribed = true;
  EXPECT_EQ(verdict_of(run).cause, Cause::oversubscription);
}

TEST(Why, CountsTheGpusThatRanksShare) {
  const Step step = {.forward = 12, .backward = 24};
  report::Run run = make_run("ddp", {step, step, step, step});
  run.oversubscribed = true;
  run.device = "cuda";
  const Report report = report_of(run);
  const Verdict verdict = explain(report, report.runs[1]);
  EXPECT_SAYS(verdict.sentence, "4 workers share 1 GPU and take turns");
  EXPECT_EQ(verdict.advice, "at most --gpus=1 fit here");
}

TEST(Why, FindsThePrimaryDevicesBottleneck) {
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
  const Verdict verdict = explain(report, report.runs[1]);
  EXPECT_EQ(verdict.cause, Cause::slowed_compute);
  // 18.9 ms of single's compute are 9.45 a device.
  EXPECT_NEAR(*part_of(verdict, "compute_s").seconds.value, 9.45 * kMs, kRounding);
  EXPECT_NEAR(*part_of(verdict, "compute_slowed_s").seconds.value, 4.9 * kMs, kRounding);
  EXPECT_SAYS(verdict.sentence, "batch of 32 a device computes less efficiently than one of 64");
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
  const Verdict verdict = explain(report, report.runs[0]);
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
  const Verdict verdict = explain(report, report.runs[0]);
  EXPECT_EQ(verdict.cause, Cause::unknown);
  EXPECT_SAYS(verdict.sentence, "compute is 97 % of the step");
  EXPECT_EQ(verdict.advice, "add single to --strategy");
}

TEST(Why, SaysThatABusyMachineBlursTheVerdict) {
  const Step step = {.comm = 40, .exposed = 30};
  report::Run run = make_run("ddp", {step, step});
  EXPECT_FALSE(says(verdict_of(run).sentence, "scatter"));
  run.step.time_s->iqr = 0.31 * run.step.time_s->median;
  EXPECT_SAYS(verdict_of(run).sentence, "step times scatter by 31 %");
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
  const Verdict verdict = verdict_of(run);  // adds them up
  EXPECT_NEAR(*part_of(verdict, "comm_exposed_s").share.value, 30 / (step.total() - step.gap),
              1e-9);
}

TEST(Why, SurvivesEveryRunOfTheSampleReport) {
  const Report report = test::sample_report();
  for (const report::Run& run : report.runs) EXPECT_NE(explain(report, run).sentence, "");
}

TEST(FillWhy, IsWrittenReadAndValid) {
  const Step step = {.comm = 40, .exposed = 30};
  Report report = report_of(make_run("ddp", {step, step}));
  fill_why(report);
  EXPECT_FALSE(report.runs[0].why);
  ASSERT_TRUE(report.runs[1].why);
  EXPECT_EQ(report.runs[1].why->cause, "slow_link");
  const nlohmann::ordered_json document = to_json(report);
  const auto errors =
      ddpbench::test::schema_errors(nlohmann::json(document), DDPBENCH_REPORT_SCHEMA);
  EXPECT_TRUE(errors.empty()) << errors.front();
  const Report again = parse_report(document.dump(), "memory");
  ASSERT_TRUE(again.runs[1].why);
  EXPECT_EQ(again.runs[1].why->sentence, report.runs[1].why->sentence);
  EXPECT_EQ(to_json(again), document);
}

TEST(RenderWhy, ExplainsTheMedianRepetitionWithinTheWidth) {
  std::vector<report::Run> runs;
  for (const double exposed : {30.0, 20.0, 90.0}) {
    const Step step = {.comm = 95, .exposed = exposed};
    runs.push_back(make_run("ddp", {step, step}));
    runs.back().repetition = static_cast<int>(runs.size()) - 1;
  }
  Report report = report_of(runs[0]);
  report.runs.insert(report.runs.end(), runs.begin() + 1, runs.end());
  const std::string text = render_why(report, 60);
  EXPECT_EQ(text.find("Why: ddp on 2 devices:"), 0u) << text;
  EXPECT_EQ(text.find("Why:", 1), std::string::npos) << text;
  EXPECT_SAYS(render_why(report, 0), "(30.0 ms of 49.2 ms)");
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 60u) << text;
  }
}

TEST(RenderWhy, TellsSettingsOfOneStrategyApart) {
  const Step step = {.comm = 95, .exposed = 30};
  const report::Run run = make_run("ddp", {step, step});
  Report report = report_of(run);
  report.runs.push_back(run);
  report.runs[report.runs.size() - 2].strategy_options["bucket_cap_mb"] = "1";
  report.runs.back().strategy_options["bucket_cap_mb"] = "25";
  const std::string text = render_why(report, 0);
  EXPECT_SAYS(text, "ddp on 2 devices (bucket_cap_mb=1):");
  EXPECT_SAYS(text, "ddp on 2 devices (bucket_cap_mb=25):");
}

TEST(RenderWhy, TellsTheServersApart) {
  const Step step = {.comm = 95, .exposed = 30};
  report::Run run = make_run("ps", {step, step});
  run.servers = 1;
  Report report = report_of(run);
  report.runs.push_back(run);
  report.runs.back().servers = 2;
  const std::string text = render_why(report, 0);
  EXPECT_SAYS(text, "Why: ps on 2 devices and 1 server: ");
  EXPECT_SAYS(text, "Why: ps on 2 devices and 2 servers: ");
}

TEST(RenderWhy, SaysNothingOfTuning) {
  const Step step = {.comm = 95, .exposed = 30};
  Report report = report_of(make_run("ddp", {step, step}));
  EXPECT_NE(render_why(report, 0), "");
  report.tune.emplace();
  EXPECT_EQ(render_why(report, 0), "");
  fill_why(report);
  EXPECT_FALSE(report.runs[1].why);
}

TEST(RenderWhy, ExplainsTheRowsThatAreShownAlone) {
  const Step step = {.comm = 95, .exposed = 30};
  const Report report = report_of(make_run("ddp", {step, step}));
  std::vector<RunRow> rows = all_runs(report);
  std::erase_if(rows, [](const RunRow& row) { return row.run->strategy != "single"; });
  EXPECT_EQ(render_why(rows, {}, 0), "");
  rows = all_runs(report);
  rows.erase(rows.begin());  // the baseline is not shown, but there
  const std::string text = render_why(rows, {}, 0);
  EXPECT_EQ(text.find("Why: ddp on 2 devices:"), 0u) << text;
  EXPECT_FALSE(says(text, "compared with nothing")) << text;
}

TEST(RenderWhy, NamesTheFileAndComparesWithTheBorrowedBaseline) {
  const Step step = {.comm = 95, .exposed = 30};
  const Report whole = report_of(make_run("ddp", {step, step}));
  Report part = whole;
  part.runs.erase(part.runs.begin());
  fill_scaling(part);
  std::vector<ReportFile> files = {{"part.json", part}, {"runs/whole.json", whole}};
  EXPECT_SAYS(render_why(files[0].report, 0), "compared with nothing");
  complete_scaling(files);
  ASSERT_EQ(files[0].report.runs[0].scaling->baseline, "single of runs/whole.json");
  const std::string text = render_why(all_runs(files), files, 0);
  EXPECT_SAYS(text, "Why: part.json: ddp on 2 devices: exposed all-reduce");
  EXPECT_SAYS(text, "Why: whole.json: ddp on 2 devices: exposed all-reduce");
  EXPECT_FALSE(says(text, "compared with nothing")) << text;
}

TEST(WarningLines, NameTheFileOfSeveral) {
  Report report = test::sample_report();
  report.runs[0].step.warmup_steady = false;
  EXPECT_SAYS(warning_lines(report, 0), "warning: in 1 of 6 runs");
  EXPECT_SAYS(warning_lines(report, 0, "a.json"), "warning: a.json: in 1 of 6 runs");
}

}  // namespace
}  // namespace ddpbench::report
