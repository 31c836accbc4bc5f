// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which runs the gate pairs, and its verdict on runs that did not end well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "reports/gate/gate_parts.h"
#include "tests/reports/gate_support.h"

namespace ddpbench::report {
namespace {

using test::check_one;
using test::gate_report;
using test::steady;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The message of the ConfigError that a check throws.
std::string refusal(const Report& candidate, const Report& base, const GateOptions& options = {}) {
  try {
    check_one(candidate, base, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Report with_runs(Report report, void (*change)(report::Run&)) {
  for (report::Run& run : report.runs) change(run);
  return report;
}

struct Mismatch {
  const char* key;
  void (*change)(report::Run&);
};

class GateMismatch : public testing::TestWithParam<Mismatch> {};

TEST_P(GateMismatch, IsRefusedWithBothValuesUnlessAllowed) {
  const Report base = with_runs(gate_report(steady()), [](report::Run& run) {
    run.strategy_options = {{"overlap", "on"}, {"bucket_cap_mb", "25"}};
  });
  const Report candidate = with_runs(base, GetParam().change);
  EXPECT_THAT(refusal(candidate, base), AllOf(HasSubstr(GetParam().key), HasSubstr("baseline"),
                                              HasSubstr("--allow-mismatch")));
  GateOptions options;
  options.allow_mismatch = {GetParam().key};
  const GateResult result = check_one(candidate, base, options);
  EXPECT_EQ(result.verdict, GateVerdict::pass);
  EXPECT_THAT(result.pairs.at(0).notes, Contains(HasSubstr("differs, as allowed")));
}

INSTANTIATE_TEST_SUITE_P(
    OfEachSetting, GateMismatch,
    testing::Values(
        Mismatch{"device", [](report::Run& run) { run.device = "cuda"; }},
        Mismatch{"device_model", [](report::Run& run) { run.device_model = "Other"; }},
        Mismatch{"threads_per_device", [](report::Run& run) { run.threads_per_device = 2; }},
        Mismatch{"model", [](report::Run& run) { run.model = "lenet5"; }},
        Mismatch{"model_hash", [](report::Run& run) { run.model_hash = "fedcba9876543210"; }},
        Mismatch{"parameters", [](report::Run& run) { run.parameters = 7; }},
        Mismatch{"precision", [](report::Run& run) { run.precision = "bf16"; }},
        Mismatch{"optimizer/name", [](report::Run& run) { run.optimizer_name = "adam"; }},
        Mismatch{"optimizer/lr", [](report::Run& run) { run.optimizer["lr"] = 0.1; }},
        Mismatch{"per_device_batch_size", [](report::Run& run) { run.per_device_batch_size = 32; }},
        Mismatch{"global_batch_size", [](report::Run& run) { run.global_batch_size = 32; }},
        Mismatch{"accumulation_steps", [](report::Run& run) { run.accumulation_steps = 2; }},
        Mismatch{"scaling_mode", [](report::Run& run) { run.scaling_mode = "strong"; }},
        Mismatch{"dataset/name", [](report::Run& run) { run.dataset_name = "cifar"; }},
        Mismatch{"dataset/source", [](report::Run& run) { run.dataset_source = "synthetic"; }},
        Mismatch{"dataset/train_samples", [](report::Run& run) { run.train_samples = 9; }},
        Mismatch{"oversubscribed", [](report::Run& run) { run.oversubscribed = true; }},
        Mismatch{"steps", [](report::Run& run) { run.step.count = 9; }},
        Mismatch{"strategy_options/overlap",
                 [](report::Run& run) { run.strategy_options["overlap"] = "off"; }},
        Mismatch{"bucket_cap_mb",
                 [](report::Run& run) { run.strategy_options["bucket_cap_mb"] = "1"; }}),
    [](const auto& setting) {
      std::string name = setting.param.key;
      std::ranges::replace(name, '/', '_');
      return name;
    });

TEST(GatePairing, NamesBothValuesOfAMismatch) {
  const Report candidate =
      with_runs(gate_report(steady()), [](report::Run& run) { run.global_batch_size = 256; });
  EXPECT_THAT(refusal(candidate, gate_report(steady())),
              AllOf(HasSubstr("global_batch_size: new 256, baseline 128"),
                    HasSubstr("--allow-mismatch=global_batch_size")));
}

TEST(GatePairing, DoesNotCompareLossesOfDifferentAmountsOfTraining) {
  GateOptions options;
  options.allow_mismatch = {"steps"};
  const Report candidate = with_runs(gate_report(steady()), [](report::Run& run) {
    run.step.count = 9;
    run.epochs.back().train_loss *= 3;
  });
  EXPECT_EQ(check_one(candidate, gate_report(steady()), options).verdict, GateVerdict::pass);
}

TEST(GatePairing, CountsTheTrainingBeforeARunWentOn) {
  const Report whole = with_runs(gate_report(steady()),
                                 [](report::Run& run) { run.epochs.push_back(run.epochs.back()); });
  const Report resumed = with_runs(whole, [](report::Run& run) {
    run.resumed = ResumedFrom{"a.safetensors", 2, 1, 0};
    run.step.count -= 2;
    run.epochs.erase(run.epochs.begin());
  });
  EXPECT_EQ(check_one(resumed, whole).verdict, GateVerdict::pass);
  const Report other = with_runs(resumed, [](report::Run& run) { run.resumed->step = 3; });
  EXPECT_THAT(refusal(other, whole), HasSubstr("steps: new "));
}

TEST(GatePairing, TakesASettingThatOneSideDidNotRecordForEqual) {
  const Report candidate = with_runs(
      gate_report(steady()), [](report::Run& run) { run.strategy_options["new_option"] = "1"; });
  EXPECT_EQ(check_one(candidate, gate_report(steady())).verdict, GateVerdict::pass);
}

TEST(GatePairing, ListsWhatHasNoCounterpart) {
  Report candidate = gate_report(steady()), base = gate_report(steady());
  candidate.runs.push_back(test::gate_run(0.02));
  candidate.runs.back().world_size = 4;
  base.runs.push_back(test::gate_run(0.02));
  base.runs.back().backend = "nccl";
  base.runs.push_back(base.runs.back());
  const GateResult result = check_one(candidate, base);
  EXPECT_EQ(result.pairs.size(), 1u);
  ASSERT_EQ(result.uncompared.size(), 2u);
  EXPECT_TRUE(result.uncompared[0].candidate);
  EXPECT_EQ(result.uncompared[0].key.world_size, 4);
  EXPECT_FALSE(result.uncompared[1].candidate);
  EXPECT_EQ(result.uncompared[1].repetitions, 2u);
}

TEST(GatePairing, RefusesWhenNothingIsPaired) {
  const Report base = with_runs(gate_report(steady()), [](report::Run& run) { run.servers = 1; });
  EXPECT_THAT(refusal(gate_report(steady()), base), HasSubstr("nothing to compare"));
  EXPECT_THAT(refusal(gate_report({}), gate_report({})), HasSubstr("there are no runs"));
}

TEST(GatePairing, TakesSeveralFilesForRepetitions) {
  std::vector<Report> candidate, base;
  for (const double median_s : steady()) {
    candidate.push_back(gate_report({1.1 * median_s}));
    base.push_back(gate_report({median_s}));
  }
  const GateResult result = check_reports(candidate, base, {});
  EXPECT_EQ(result.pairs.at(0).candidate_repetitions, 5u);
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
}

// A sweep over batch sizes: cells of equal settings find each other and never mix.
TEST(GatePairing, KeepsTheCellsOfASweepApart) {
  const Report small = gate_report(steady());
  const Report large = with_runs(gate_report(steady(3)), [](report::Run& run) {
    run.per_device_batch_size = 128;
    run.global_batch_size = 256;
  });
  const Report candidate[] = {large, small}, base[] = {small, large};
  const GateResult result = check_reports(candidate, base, {});
  EXPECT_EQ(result.verdict, GateVerdict::pass);
  ASSERT_EQ(result.pairs.size(), 2u);
  EXPECT_EQ(result.pairs[0].setting, "global_batch_size=256, per_device_batch_size=128");
  EXPECT_EQ(result.pairs[0].candidate_repetitions, 5u);
  const Report only_small[] = {small};
  EXPECT_EQ(check_reports(only_small, base, {}).uncompared.size(), 1u);
}

Report with_batch(int batch) {
  Report report = gate_report(steady());
  for (report::Run& run : report.runs) run.global_batch_size = batch;
  return report;
}

TEST(GatePairing, NamesTheSettingsOfCellsThatShareAKey) {
  const Report candidate[] = {with_batch(256), with_batch(512)};
  const Report base[] = {with_batch(1024), with_batch(2048)};
  try {
    check_reports(candidate, base, {});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ddp, 2 devices, shm, global_batch_size=256:"),
                                    HasSubstr("ddp, 2 devices, shm, global_batch_size=512:")));
  }
  const Report more[] = {with_batch(1024), with_batch(256), with_batch(512)};
  EXPECT_THAT(render_gate_junit(check_reports(more, std::span(base, 1), {})),
              AllOf(HasSubstr("name=\"ddp, 2 devices, shm, global_batch_size=256\""),
                    HasSubstr("name=\"ddp, 2 devices, shm, global_batch_size=512\"")));
}

// One key that may not differ is nearer than two that may.
TEST(GatePairing, TakesTheNearestOfTheCellsThatAreAllowed) {
  const Report other_lr =
      with_runs(gate_report(steady()), [](report::Run& run) { run.optimizer["lr"] = 0.5; });
  const Report elsewhere = with_runs(gate_report(steady()), [](report::Run& run) {
    run.device_model = "Other";
    run.threads_per_device = 2;
  });
  const Report candidate[] = {gate_report(steady())}, base[] = {other_lr, elsewhere};
  GateOptions options;
  options.allow_mismatch = {"device_model", "threads_per_device"};
  const GateResult result = check_reports(candidate, base, options);
  ASSERT_EQ(result.pairs.size(), 1u);
  EXPECT_THAT(result.pairs[0].notes, Contains(HasSubstr("device_model differs, as allowed")));
  ASSERT_EQ(result.uncompared.size(), 1u);
}

TEST(GatePairing, WarnsWhenOneSideWasMeasuredBeforeTheOther) {
  Report candidate = gate_report(steady());
  const Report base = gate_report(steady());
  EXPECT_THAT(check_one(candidate, base).notes, IsEmpty());
  candidate.started_at = "2026-02-01T12:00:00Z";
  candidate.finished_at = "2026-02-01T12:01:00Z";
  EXPECT_THAT(
      check_one(candidate, base).notes,
      ElementsAre(AllOf(HasSubstr("in turn"), HasSubstr("measured 24.0 h after the baseline"))));
  EXPECT_THAT(check_one(base, candidate).notes,
              ElementsAre(HasSubstr("24.0 h before the baseline")));
  // An import has one moment; those that took turns may be minutes apart.
  candidate.started_at = candidate.finished_at = "2026-01-31T12:50:00Z";
  EXPECT_THAT(check_one(candidate, base).notes, IsEmpty());
  candidate.started_at = candidate.finished_at = "2026-03-31T12:50:00Z";
  EXPECT_THAT(check_one(candidate, base).notes, ElementsAre(HasSubstr("1416.8 h after")));
  candidate.environment.hosts = {"other"};
  EXPECT_THAT(check_one(candidate, base).notes, Contains(HasSubstr("different hosts")));
}

TEST(GatePairing, SaysNothingOfTheOrderOfMeasuringWhereItIsNotRecorded) {
  Report base = gate_report(steady()), candidate = base;
  base.started_at = base.finished_at = "";
  candidate.started_at = "2026-02-01T12:00:00Z";
  candidate.finished_at = "";
  EXPECT_THAT(check_one(candidate, base).notes, IsEmpty());
  EXPECT_THAT(check_one(base, candidate).notes, IsEmpty());
  EXPECT_EQ(check_one(candidate, base).origin.started_at, "2026-02-01T12:00:00Z");
}

void fail(report::Run& run) {
  run.status = Status::failed;
  run.error = ErrorInfo{"signal", 1, "node", 9, 5, "backward", "", "killed by SIGKILL"};
  run.step = {};
  run.epochs.clear();
  run.parameters = 0;
}

TEST(GateHealth, FlagsARunThatFailsNow) {
  Report candidate = gate_report(steady());
  fail(candidate.runs[2]);
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  EXPECT_EQ(result.pairs[0].candidate_repetitions, 4u);
  EXPECT_THAT(result.pairs[0].notes,
              Contains(AllOf(HasSubstr("1 of 5"), HasSubstr("killed by SIGKILL"))));
  // If all of them fail there are no figures, and the verdict is the same.
  for (report::Run& run : candidate.runs) fail(run);
  const GateResult all = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(all.verdict, GateVerdict::regressed);
  EXPECT_THAT(all.pairs[0].figures, IsEmpty());
}

TEST(GateHealth, IsInconclusiveWhereTheBaselineFailedAtTimesToo) {
  Report candidate = gate_report(steady()), base = gate_report(steady());
  fail(candidate.runs[2]);
  fail(base.runs[0]);
  EXPECT_EQ(check_one(candidate, base).verdict, GateVerdict::inconclusive);
}

TEST(GateHealth, FlagsAVerificationThatFailsNow) {
  Report candidate = gate_report(steady());
  candidate.runs[0].verification.status = "failed";
  candidate.runs[0].verification.reason = "fc1 differs";
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  EXPECT_THAT(result.pairs[0].notes, Contains(HasSubstr("fc1 differs")));
}

TEST(GateHealth, NeverPassesWhatWasSkippedInterruptedOrNotVerified) {
  const Report base = gate_report(steady());
  for (const Status status : {Status::skipped, Status::interrupted}) {
    Report candidate = base;
    candidate.runs[4].status = status;
    candidate.runs[4].reason = "no device";
    EXPECT_EQ(check_one(candidate, base).verdict, GateVerdict::inconclusive);
  }
  Report candidate = base;
  for (report::Run& run : candidate.runs) run.verification.status = "off";
  EXPECT_EQ(check_one(candidate, base).verdict, GateVerdict::inconclusive);
  EXPECT_EQ(check_one(candidate, candidate).verdict, GateVerdict::pass);
  EXPECT_EQ(check_one(base, candidate).verdict, GateVerdict::pass);
}

TEST(GateHealth, StillFlagsWhatIsSlowerAmongRunsThatWereInterrupted) {
  Report candidate = gate_report(steady(1.2));
  candidate.runs[4].status = Status::interrupted;
  EXPECT_EQ(check_one(candidate, gate_report(steady())).verdict, GateVerdict::regressed);
}

// A new run without a baseline gets no verdict, but the result lists it.
TEST(GateHealth, ListsPairsWhoseBaselineFailed) {
  Report candidate = gate_report(steady()), base = gate_report(steady());
  base.runs.push_back(test::gate_run(0.02));
  base.runs.back().world_size = 4;
  fail(base.runs.back());
  candidate.runs.push_back(test::gate_run(0.02));
  candidate.runs.back().world_size = 4;
  const GateResult result = check_one(candidate, base);
  EXPECT_EQ(result.verdict, GateVerdict::pass);
  ASSERT_EQ(result.uncompared.size(), 1u);
  EXPECT_THAT(result.uncompared[0].reason, HasSubstr("killed by SIGKILL"));
}

// A skipped run knows neither its backend nor its batch.
TEST(GateHealth, FindsTheCounterpartOfASkippedRun) {
  Report candidate = gate_report({});
  report::Run skipped;
  skipped.status = Status::skipped;
  skipped.reason = "no CUDA device is here";
  skipped.strategy = "ddp";
  skipped.world_size = 2;
  skipped.device = "cpu";
  candidate.runs = {skipped};
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::inconclusive);
  EXPECT_EQ(result.pairs.at(0).key.backend, "shm");
  EXPECT_THAT(result.pairs[0].notes, Contains(HasSubstr("no CUDA device is here")));
}

TEST(GateHealth, DoesNotPassAReportThatWasInterruptedBeforeItWasThrough) {
  Report candidate = gate_report(steady()), base = gate_report(steady());
  base.runs.push_back(test::gate_run(0.02));
  base.runs.back().world_size = 4;
  EXPECT_EQ(check_one(candidate, base).verdict, GateVerdict::pass);
  candidate.status = Status::interrupted;
  EXPECT_EQ(check_one(candidate, base).verdict, GateVerdict::inconclusive);
  EXPECT_EQ(check_one(candidate, gate_report(steady())).verdict, GateVerdict::pass);
}

TEST(GateHealth, SaysWhichSideWasInterrupted) {
  Report interrupted = gate_report(steady());
  interrupted.status = Status::interrupted;
  const Report whole = gate_report(steady());
  EXPECT_THAT(check_one(whole, interrupted).notes,
              ElementsAre(HasSubstr("a baseline report was interrupted")));
  EXPECT_THAT(check_one(interrupted, whole).notes,
              ElementsAre(HasSubstr("a new report was interrupted")));
  EXPECT_EQ(check_one(whole, interrupted).verdict, GateVerdict::pass);
}

TEST(GateHealth, MarksPlantedFaults) {
  Report candidate = gate_report(steady(1.2));
  for (report::Run& run : candidate.runs) run.injected = "slow:rank=1,phase=backward,percent=25";
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(result.pairs[0].candidate_injected, "slow:rank=1,phase=backward,percent=25");
  EXPECT_THAT(result.pairs[0].base_injected, IsEmpty());
}

Report with_fault(Report report) {
  for (report::Run& run : report.runs) run.injected = "slow:rank=1,phase=backward,percent=25";
  return report;
}

// Clean runs and slowed-down runs are not repetitions of each other.
TEST(GateHealth, KeepsRunsWithPlantedFaultsApartFromCleanOnes) {
  const Report clean = gate_report(steady()), slow = with_fault(gate_report(steady(1.2)));
  const Report candidate[] = {slow, clean};
  const GateResult one = check_reports(candidate, std::span(&clean, 1), {});
  ASSERT_EQ(one.pairs.size(), 1u);
  EXPECT_EQ(one.verdict, GateVerdict::pass);
  EXPECT_EQ(one.pairs[0].candidate_repetitions, 5u);
  ASSERT_EQ(one.uncompared.size(), 1u);
  EXPECT_THAT(uncompared_text(one.uncompared[0]), HasSubstr("shm, injected=slow:rank=1"));
  const Report base[] = {clean, slow};
  const GateResult both = check_reports(candidate, base, {});
  EXPECT_EQ(both.pairs.size(), 2u);
  EXPECT_EQ(both.verdict, GateVerdict::pass);
}

TEST(GateHealth, CountsAFailureAmongTheRunsOfItsFault) {
  Report slow = with_fault(gate_report(steady()));
  fail(slow.runs[0]);
  const Report candidate[] = {gate_report(steady()), slow};
  const Report base[] = {gate_report(steady()), with_fault(gate_report(steady()))};
  const GateResult result = check_reports(candidate, base, {});
  ASSERT_EQ(result.pairs.size(), 2u);
  EXPECT_EQ(result.pairs[0].verdict, GateVerdict::pass);
  EXPECT_EQ(result.pairs[1].verdict, GateVerdict::regressed);
}

TEST(GateSettings, KnowsWholeKeysTheirGroupsAndTheirLastParts) {
  const Report report = with_runs(gate_report(steady()), [](report::Run& run) {
    run.strategy_options = {{"overlap", "on"}};
  });
  const auto keys = gate_setting_keys(std::span(&report, 1), {});
  for (const char* key : {"device_model", "optimizer", "optimizer/lr", "lr", "overlap"}) {
    EXPECT_THAT(keys, Contains(key));
  }
  EXPECT_THAT(keys, Not(Contains("strategy")));
}

}  // namespace
}  // namespace ddpbench::report
