// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sweeps as a user runs them: matrices, order, resuming, precision, warm-up, tune.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSweepConfig = test::small_config({.steps = 3, .verify_steps = 1});

class Sweep : public testing::Test {
 protected:
  Sweep() { program.write("lenet.json", kSweepConfig); }
  Program program;
};

std::multiset<int> sequence(const json& report) {
  std::multiset<int> numbers;
  for (const json& run : report["runs"]) numbers.insert(run["sequence"].get<int>());
  return numbers;
}

// The report is there before the first run.
bool has_a_run(const Program& program) {
  const std::string text = program.read("report.json");
  return !text.empty() && !json::parse(text)["runs"].empty();
}

TEST_F(Sweep, MakesTheMatrixOfItsListsSortedByCell) {
  const auto result =
      program.run(small_run("single,ddp", {"--batch-size=4,8", "--bucket-cap-mb=0.05,25",
                                           "--first-bucket-mb=0.01", "--repetitions=2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 12u);
  EXPECT_EQ(sequence(report), (std::multiset<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  for (std::size_t i = 0; i < 12; ++i) {
    const json& run = report["runs"][i];
    EXPECT_EQ(run["repetition"], i % 2);
    EXPECT_EQ(run["strategy"], i < 4 ? "single" : "ddp");
    EXPECT_EQ(run["per_device_batch_size"], i / 2 == 0 || i / 2 == 2 || i / 2 == 3 ? 4 : 8);
    EXPECT_EQ(run["verification"]["status"], i < 4 ? "reference" : "passed");
    EXPECT_FALSE(run["scaling"].is_null() && !run["oversubscribed"].get<bool>()) << i;
  }
  EXPECT_EQ(report["runs"][4]["strategy_options"]["bucket_cap_mb"], 0.05);
  EXPECT_EQ(report["runs"][6]["strategy_options"]["bucket_cap_mb"], 25);
  ASSERT_EQ(report["cells"].size(), 6u);
  EXPECT_EQ(report["cells"][2]["runs"], json({4, 5}));
  EXPECT_TRUE(report["config"]["batch_size"].is_array());
}

TEST_F(Sweep, ComparesTheAlgorithmsOfAllReducesAndSaysWhichRan) {
  const auto result = program.run(small_run("ddp,ps", {"--all-reduce=ring,direct"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 3u);
  EXPECT_EQ(report["runs"][0]["strategy_options"]["all_reduce"], "ring");
  EXPECT_EQ(report["runs"][1]["strategy_options"]["all_reduce"], "direct");
  EXPECT_FALSE(report["runs"][2]["strategy_options"].contains("all_reduce"));  // ps has none
  EXPECT_THAT(result.out, testing::HasSubstr("\nddp (all reduce ring) "));
  EXPECT_THAT(result.out, testing::HasSubstr("\nddp (all reduce direct) "));
  for (const json& run : report["runs"]) EXPECT_EQ(run["verification"]["status"], "passed");
  ASSERT_EQ(program.run(small_run("ddp", {"--force"})).exit_code, 0);
  EXPECT_EQ(program.report()["runs"][0]["strategy_options"]["all_reduce"], "direct");  // auto
  EXPECT_EQ(program.run(small_run("ddp", {"--all-reduce=auto,ring"})).exit_code, 2);
}

TEST_F(Sweep, TakesListsFromTheConfigurationFile) {
  program.write("lists.json", R"({
    "model": "lenet5", "strategy": "single", "batch_size": [4, 8], "steps": 2, "warmup_steps": 0,
    "verify_steps": 0})");
  ASSERT_EQ(program.run({"--config=lists.json", "--json=report.json"}).exit_code, 0);
  EXPECT_EQ(program.report()["runs"].size(), 2u);
}

TEST_F(Sweep, RecordsTheConditionsOfEveryRun) {
  ASSERT_EQ(program.run(small_run("single")).exit_code, 0);
  const json conditions = program.report()["runs"][0]["conditions"];
  EXPECT_TRUE(conditions["major_page_faults"].is_number());
  EXPECT_TRUE(conditions["notes"].is_array());
}

class WarmUp : public Sweep {
 protected:
  // Runs of five strategies.
  json runs_with(const std::vector<std::string>& options) {
    const auto result = program.run(small_run("single,dp,ddp,ps,localsgd", options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    json runs = program.report()["runs"];
    EXPECT_EQ(runs.size(), 5u);
    return runs;
  }
};

TEST_F(WarmUp, GoesOnUntilStepsAreSteadyOrTheLimit) {
  // The limit is a whole number of localsgd's cycles, which have 3 steps here.
  constexpr int kLimit = 42;
  for (const json& run : runs_with({"--warmup-steps=2", "--warmup-max-steps=42"})) {
    SCOPED_TRACE(run["strategy"]);
    const json& step = run["step"];
    EXPECT_GE(step["warmup"], 10);
    EXPECT_LE(step["warmup"], kLimit);
    ASSERT_TRUE(step["warmup_steady"].is_boolean());
    if (step["warmup"] < kLimit) {
      EXPECT_TRUE(step["warmup_steady"].get<bool>());
    }
    EXPECT_EQ(step["count"], 3);
  }
}

TEST_F(WarmUp, LeavesNoTraceInTheTraining) {
  const json all_cold = runs_with({"--warmup-steps=0"});
  const json all_warm = runs_with({"--warmup-steps=12", "--warmup-max-steps=30", "--force"});
  for (std::size_t i = 0; i < std::min(all_cold.size(), all_warm.size()); ++i) {
    const json &cold = all_cold[i], &warm = all_warm[i];
    SCOPED_TRACE(cold["strategy"]);
    EXPECT_EQ(cold["step"]["warmup"], 0);
    EXPECT_TRUE(cold["step"]["warmup_steady"].is_null());
    EXPECT_GE(warm["step"]["warmup"], 12);
    EXPECT_EQ(cold["epochs"][0]["train_loss"], warm["epochs"][0]["train_loss"]);
  }
}

TEST_F(Sweep, RepeatsForPrecisionUntilTheLimitAndMarksWhatIsNoisy) {
  const auto result = program.run(
      small_run("single", {"--until-ci=0.0001%", "--max-repetitions=7", "--verify-steps=0"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  EXPECT_EQ(report["runs"].size(), 7u);
  ASSERT_EQ(report["cells"].size(), 1u);
  EXPECT_EQ(report["cells"][0]["noisy"], true);
  EXPECT_GT(report["cells"][0]["ci_width_ratio"], 1e-6);
  EXPECT_THAT(result.out, HasSubstr("noisy"));
}

TEST_F(Sweep, IsSavedAfterEveryRunAndResumed) {
  // The supervisor is killed during the second of three runs.
  program.run(small_run("single", {"--repetitions=3", "--steps=400", "--order=sequential"}),
              [&](int pid) {
                EXPECT_TRUE(Program::wait_until([&] { return has_a_run(program); }));
                ::kill(pid, SIGKILL);
              });
  const json partial = program.report();
  EXPECT_EQ(partial["status"], "interrupted");
  const std::size_t kept = partial["runs"].size();
  ASSERT_GE(kept, 1u);
  ASSERT_LT(kept, 3u);
  const auto result = program.run({"--strategy=single", "--config=lenet.json", "--repetitions=3",
                                   "--steps=400", "--resume=report.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("runs are kept"));
  const json report = program.report();
  EXPECT_EQ(report["status"], "ok");
  ASSERT_EQ(report["runs"].size(), 3u);
  for (const char* key : {"sequence", "started_at", "step", "epochs", "devices"}) {
    EXPECT_EQ(report["runs"][0][key], partial["runs"][0][key]) << key;
  }
  EXPECT_EQ(report["started_at"], partial["started_at"]);
  EXPECT_EQ(sequence(report), (std::multiset<int>{0, 1, 2}));
}

TEST_F(Sweep, ResumesAfterAFailureAndKeepsTheEarlierReport) {
  ASSERT_EQ(program.run(small_run("single")).exit_code, 0);
  json failed = program.report();
  failed["status"] = "failed";
  failed["error"] = {{"kind", "signal"},     {"rank", 0},          {"host", "node"},
                     {"signal", 9},          {"step", 1},          {"phase", "forward"},
                     {"operation", nullptr}, {"message", "killed"}};
  failed["runs"][0]["status"] = "failed";
  failed["runs"][0]["error"] = failed["error"];
  program.write("failed.json", failed.dump());
  const auto result = program.run(
      {"--strategy=single", "--config=lenet.json", "--resume=failed.json", "--json=new.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report("new.json")["status"], "ok");
  EXPECT_EQ(program.report("new.json")["runs"].size(), 1u);
  EXPECT_EQ(program.report("failed.json"), failed);
}

// Returns a report of two repetitions of which the second has `status`.
json with_second_run(const Program& program, const std::string& status) {
  json report = program.report();
  report["status"] = status;
  if (status == "failed") {
    report["error"] = {{"kind", "signal"},     {"rank", 0},          {"host", "node"},
                       {"signal", 9},          {"step", 1},          {"phase", "forward"},
                       {"operation", nullptr}, {"message", "killed"}};
    report["runs"][1]["error"] = report["error"];
  }
  report["runs"][1]["status"] = status;
  return report;
}

TEST_F(Sweep, LeavesOutWhatFailedEarlierAndIsNotAskedForNow) {
  ASSERT_EQ(program.run(small_run("single", {"--repetitions=2"})).exit_code, 0);
  for (const char* status : {"failed", "interrupted"}) {
    program.write("old.json", with_second_run(program, status).dump());
    const auto result = program.run({"--strategy=single", "--config=lenet.json", "--repetitions=1",
                                     "--resume=old.json", "--json=new.json", "--force"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("left out: single on 1 device, repetition 2"));
    const json report = program.report("new.json");
    EXPECT_EQ(report["status"], "ok");
    EXPECT_TRUE(report["error"].is_null());
    ASSERT_EQ(report["runs"].size(), 1u);
    EXPECT_EQ(report["runs"][0]["status"], "ok");
  }
}

TEST_F(Sweep, ResumesInPlaceWhereBothNamesAreOneFile) {
  ASSERT_EQ(program.run(small_run("single", {"--repetitions=1"})).exit_code, 0);
  const auto result = program.run({"--strategy=single", "--config=lenet.json", "--repetitions=2",
                                   "--resume=report.json", "--json=./report.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["runs"].size(), 2u);
}

TEST_F(Sweep, ResumesWithATraceOfWhatIsMadeNow) {
  ASSERT_EQ(program.run(small_run("single", {"--repetitions=1"})).exit_code, 0);
  const std::vector<std::string> resumed = {"--strategy=single",  "--config=lenet.json",
                                            "--repetitions=2",    "--resume=report.json",
                                            "--trace=trace.json", "--force"};
  const auto result = program.run(resumed);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("trace: trace.json (1 of 2 runs)"));
  const std::string trace = program.read("trace.json");
  const auto again = program.run(resumed);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("no run left one now"));
  EXPECT_EQ(program.read("trace.json"), trace);
}

TEST_F(Sweep, RefusesTheSameRunTwice) {
  ASSERT_EQ(program.run(small_run("single", {"--repetitions=2"})).exit_code, 0);
  json twice = program.report();
  twice["runs"][1]["repetition"] = 0;
  program.write("twice.json", twice.dump());
  const auto result = program.run({"--strategy=single", "--config=lenet.json", "--repetitions=2",
                                   "--resume=twice.json", "--json=new.json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("/runs/1 is there twice"));
}

TEST_F(Sweep, RefusesToResumeAnotherExperiment) {
  ASSERT_EQ(program.run(small_run("single")).exit_code, 0);
  const std::string before = program.read("report.json");
  const auto result =
      program.run({"--strategy=single", "--config=lenet.json", "--lr=0.5", "--resume=report.json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("/optimizer/lr was 0.01, is 0.5"));
  EXPECT_EQ(program.read("report.json"), before);
  EXPECT_EQ(program.run({"--resume=absent.json"}).exit_code, 2);
}

TEST_F(Sweep, TuneTriesBucketsAndConcludes) {
  const auto result =
      program.run({"tune", "--config=lenet.json", "--gpus=2", "--steps=3", "--repetitions=1",
                   "--confirm-repetitions=6", "--bucket-cap-mb=0.05", "--first-bucket-mb=0.01",
                   "--overlap=on", "--json=report.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  const json& tune = report["tune"];
  // The default's first bucket holds all of LeNet-5, for every cap.
  ASSERT_EQ(tune["settings"].size(), 3u) << tune.dump();
  EXPECT_EQ(tune["settings"][0]["first_bucket_mb"], 1);
  EXPECT_EQ(tune["settings"][0]["screening_ratio"], 1);
  EXPECT_EQ(report["runs"].size(), tune["candidate"].is_null() ? 3u : 15u);
  EXPECT_FALSE(tune["conclusion"].get<std::string>().empty());
  EXPECT_THAT(result.out, HasSubstr("more: ddpbench chart|html report.json\nreport: report.json"));
}

TEST_F(Sweep, AnInterruptedTuneSaysSoAndNothingElse) {
  const auto result =
      program.run({"tune", "--config=lenet.json", "--gpus=2", "--steps=3", "--repetitions=50",
                   "--json=report.json"},
                  [this](int pid) {
                    EXPECT_TRUE(program.wait_until([this] { return has_a_run(program); }));
                    ::kill(pid, SIGINT);
                  });
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const json report = program.report();
  EXPECT_THAT(report["tune"]["conclusion"].get<std::string>(), HasSubstr("Nothing can be said"));
  EXPECT_EQ(result.out.find("add single"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("Why:"), std::string::npos) << result.out;
}

TEST_F(Sweep, TuneRefusesWhatItCannotTune) {
  EXPECT_EQ(program.run({"tune", "--config=lenet.json"}).exit_code, 2);
  EXPECT_EQ(program.run({"tune", "--config=lenet.json", "--gpus=2,3"}).exit_code, 2);
  EXPECT_EQ(program.run({"tune", "--config=lenet.json", "--gpus=2", "--strategy=ps"}).exit_code, 2);
}

}  // namespace
}  // namespace ddpbench
