// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::sample_run;

Report report_with_scaling(std::vector<Run> runs) {
  Report report;
  report.runs = std::move(runs);
  fill_scaling(report);
  return report;
}

Run strong(Run run, std::int64_t global_batch) {
  run.scaling_mode = "strong";
  run.global_batch_size = global_batch;
  run.per_device_batch_size = global_batch / run.world_size;
  return run;
}

TEST(FillScaling, ComparesWithSingleOfTheSameReport) {
  const Report report =
      report_with_scaling({sample_run("single", 1, 100), sample_run("ddp", 2, 180)});
  ASSERT_TRUE(report.runs[0].scaling);
  EXPECT_DOUBLE_EQ(report.runs[0].scaling->efficiency, 1);
  ASSERT_TRUE(report.runs[1].scaling);
  EXPECT_EQ(report.runs[1].scaling->baseline, "single");
  EXPECT_DOUBLE_EQ(report.runs[1].scaling->speedup, 1.8);
  EXPECT_DOUBLE_EQ(report.runs[1].scaling->efficiency, 0.9);
  EXPECT_EQ(report.runs[1].scaling_reason, "");
}

TEST(FillScaling, TakesTheMedianOverRepetitionsOfSingle) {
  const Report report =
      report_with_scaling({sample_run("single", 1, 100), sample_run("single", 1, 10),
                           sample_run("single", 1, 120), sample_run("ddp", 2, 150)});
  EXPECT_DOUBLE_EQ(report.runs[3].scaling->speedup, 1.5);
}

TEST(FillScaling, ASingleRunWithoutThroughputIsNoBaseline) {
  const Report report =
      report_with_scaling({sample_run("single", 1, 0), sample_run("ddp", 2, 150)});
  EXPECT_EQ(report.runs[0].scaling_reason, "no throughput was measured");
  EXPECT_EQ(report.runs[1].scaling_reason, "no usable single run in this report");
}

TEST(FillScaling, WeakNeedsTheSamePerDeviceBatch) {
  report::Run single = sample_run("single", 1, 100);
  single.per_device_batch_size = single.global_batch_size = 128;  // the ddp run's global batch
  const Report report = report_with_scaling({single, sample_run("ddp", 2, 180)});
  EXPECT_FALSE(report.runs[1].scaling);
  EXPECT_EQ(report.runs[1].scaling_reason,
            "no single run with the same device, network and per-device batch size (64)");
}

TEST(FillScaling, StrongNeedsTheSameGlobalBatch) {
  const report::Run single = strong(sample_run("single", 1, 100), 256);
  const Report same = report_with_scaling({single, strong(sample_run("ddp", 2, 180), 256)});
  EXPECT_DOUBLE_EQ(same.runs[1].scaling->speedup, 1.8);
  const Report other = report_with_scaling({single, strong(sample_run("ddp", 2, 180), 512)});
  EXPECT_EQ(other.runs[1].scaling_reason,
            "no single run with the same device, network and global batch size (512)");
}

TEST(FillScaling, NeedsTheSameDeviceThreadsNetworkAndPrecision) {
  const auto differing = [](void (*change)(report::Run&)) {
    report::Run single = sample_run("single", 1, 100);
    change(single);
    return report_with_scaling({single, sample_run("ddp", 2, 180)}).runs[1].scaling.has_value();
  };
  EXPECT_TRUE(differing([](report::Run&) {}));
  EXPECT_FALSE(differing([](report::Run& run) { run.device = "cuda"; }));
  EXPECT_FALSE(differing([](report::Run& run) { run.device_model = "Imaginary 8000"; }));
  EXPECT_FALSE(differing([](report::Run& run) { run.threads_per_device = 2; }));
  EXPECT_FALSE(differing([](report::Run& run) { run.model = "lenet5"; }));
  EXPECT_FALSE(differing([](report::Run& run) { run.precision = "bf16"; }));
}

TEST(FillScaling, MeasuresRunsWithCudaGraphsAgainstASingleRunWithThem) {
  const auto with_graphs = [](report::Run run, const char* mode) {
    run.strategy_options["cuda_graph"] = mode;
    return run;
  };
  const report::Run off = with_graphs(sample_run("single", 1, 100), "off");
  const report::Run on = with_graphs(sample_run("single", 1, 200), "on");
  const report::Run ddp = sample_run("ddp", 2, 300), dp = sample_run("dp", 2, 300);
  const Report both =
      report_with_scaling({off, on, with_graphs(ddp, "off"), with_graphs(ddp, "on"), dp});
  EXPECT_DOUBLE_EQ(both.runs[2].scaling->speedup, 3);
  EXPECT_DOUBLE_EQ(both.runs[3].scaling->speedup, 1.5);
  EXPECT_DOUBLE_EQ(both.runs[4].scaling->speedup, 1.5);
  EXPECT_EQ(Baselines(both).of(both.runs[2]), std::vector{&both.runs[0]});
  EXPECT_EQ(Baselines(both).of(both.runs[4]), std::vector{&both.runs[1]});
  // A thousand repetitions share one list, from which medians are made once.
  const Baselines baselines(both);
  EXPECT_EQ(&baselines.of(both.runs[3]), &baselines.of(both.runs[4]));
  // A single mode serves all runs.
  EXPECT_DOUBLE_EQ(report_with_scaling({off, with_graphs(ddp, "on")}).runs[1].scaling->speedup, 3);
}

TEST(FillScaling, MeasuresRunsAgainstASingleRunWithAsManyLoaderWorkers) {
  const auto with_workers = [](const char* strategy, int devices, double rate,
                               const char* workers) {
    report::Run run = sample_run(strategy, devices, rate);
    if (*workers != '\0') run.strategy_options["loader_workers"] = workers;
    return run;
  };
  const Report report =
      report_with_scaling({with_workers("single", 1, 100, ""), with_workers("single", 1, 200, "2"),
                           with_workers("ddp", 2, 300, ""), with_workers("ddp", 2, 300, "2")});
  EXPECT_DOUBLE_EQ(report.runs[1].scaling->speedup, 1);
  EXPECT_DOUBLE_EQ(report.runs[2].scaling->speedup, 3);
  EXPECT_DOUBLE_EQ(report.runs[3].scaling->speedup, 1.5);
  // Another number serves where there is none.
  EXPECT_DOUBLE_EQ(report_with_scaling({with_workers("single", 1, 100, "4"), report.runs[2]})
                       .runs[1]
                       .scaling->speedup,
                   3);
}

TEST(FillScaling, SaysWhenThereIsNoSingleRun) {
  EXPECT_EQ(report_with_scaling({sample_run("ddp", 2, 180)}).runs[0].scaling_reason,
            "no single run in this report");
}

TEST(FillScaling, DoesNotMeasureAgainstAFailedOrSlowedSingle) {
  report::Run failed = sample_run("single", 1, 100), slowed = failed;
  failed.status = Status::failed;
  slowed.injected = "slow:percent=50";
  const Report report = report_with_scaling({failed, slowed, sample_run("ddp", 2, 180)});
  EXPECT_EQ(report.runs[0].scaling_reason, "the run failed");
  EXPECT_EQ(report.runs[2].scaling_reason, "no usable single run in this report");
}

TEST(FillScaling, GivesOversubscribedRunsAReasonAndNoEfficiency) {
  report::Run over = sample_run("ddp", 4, 180);
  over.oversubscribed = true;
  over.scaling = Scaling{"single", 9, 9};  // an old figure must not stay
  const Report report = report_with_scaling({sample_run("single", 1, 100), over});
  EXPECT_FALSE(report.runs[1].scaling);
  EXPECT_EQ(report.runs[1].scaling_reason, "oversubscribed: more compute threads than cores");
}

TEST(FillScaling, GivesUnfinishedAndUnprovenRunsTheirReason) {
  report::Run skipped = sample_run("ddp", 2, 180), interrupted = skipped, wrong = skipped,
              silent = skipped;
  skipped.status = Status::skipped;
  interrupted.status = Status::interrupted;
  wrong.verification.status = "failed";
  silent.samples_per_s = Figure::missing("no step was timed");
  const Report report =
      report_with_scaling({sample_run("single", 1, 100), skipped, interrupted, wrong, silent});
  EXPECT_EQ(report.runs[1].scaling_reason, "the run was skipped");
  EXPECT_EQ(report.runs[2].scaling_reason, "the run was interrupted");
  EXPECT_EQ(report.runs[3].scaling_reason, "the verification failed");
  EXPECT_EQ(report.runs[4].scaling_reason, "no throughput was measured");
}

}  // namespace
}  // namespace ddpbench::report
