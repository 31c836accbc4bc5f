// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// "runs" of a configuration, and costs that are emulated, as a user sees them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ProgramRuns : public testing::Test {
 protected:
  ProgramRuns() {
    program.write("lenet.json", test::small_config({.steps = 3, .verify_steps = 1}));
  }

  // lenet.json with a list of runs, as list.json.
  void write_list(const char* runs) {
    json config = json::parse(program.read("lenet.json"));
    config["gpus"] = 2;
    config["runs"] = json::parse(runs);
    program.write("list.json", config.dump());
  }

  Program program;
};

constexpr const char* kTwoSizes = R"([
    {"strategy": "dp", "global_batch_size": 8, "loader_workers": 2},
    {"strategy": "ddp", "global_batch_size": 32},
    {"strategy": "ddp", "global_batch_size": 8},
    {"strategy": ["ddp", "single"], "global_batch_size": 8, "optimizer": {"lr": 0.5}}])";

// The network has no running statistics to broadcast.
TEST_F(ProgramRuns, SayWhichEntryDiffersInNothingThatHasAnEffect) {
  write_list(R"([{"strategy": "ddp"}, {"strategy": "ddp", "broadcast_buffers": false}])");
  const auto result = program.run({"--config=list.json", "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("note: /runs/1 of the configuration makes no run of its"),
                                HasSubstr("1 run checked")));
}

TEST_F(ProgramRuns, HaveTheLabelsOfTheirEntries) {
  write_list(R"([{"strategy": "ddp", "label": "overlapped"},
                 {"strategy": "ddp", "overlap": "off", "label": "flat"}])");
  const auto result = program.run({"--config=list.json", "--json=report.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\nddp (overlapped)  "), HasSubstr("\nddp (flat)  ")));
  EXPECT_EQ(program.report()["runs"][1]["label"], "flat");
}

TEST_F(ProgramRuns, AreMadeInOneReportAndOnlyEqualWorkIsRanked) {
  write_list(kTwoSizes);
  const auto result = program.run({"--config=list.json", "--json=report.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 5u);
  EXPECT_EQ(report["runs"][0]["strategy"], "dp");
  EXPECT_EQ(report["runs"][0]["strategy_options"]["loader_workers"], 2);
  EXPECT_EQ(report["runs"][1]["global_batch_size"], 32);
  EXPECT_EQ(report["runs"][3]["strategy"], "single");
  EXPECT_EQ(report["runs"][3]["optimizer"]["lr"], 0.5);
  EXPECT_EQ(report["config"]["runs"].size(), 4u);
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["verification"]["status"], run["strategy"] == "single" ? "reference" : "passed");
  }
}

TEST_F(ProgramRuns, ArePlannedAloneByADryRun) {
  write_list(kTwoSizes);
  const auto result = program.run({"--config=list.json", "--dry-run", "--loader-workers=0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("dp on 2 devices, global batch 8"),
                                HasSubstr("ddp on 2 devices, global batch 32"),
                                HasSubstr("5 runs checked"), Not(HasSubstr("loader workers"))));
  const auto refused = program.run(
      {"--config=list.json", "--dry-run", "--strategy=ddp", "--global-batch-size=8", "--lr=0.1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("list.json: /runs/2: it makes no run"));
}

TEST_F(ProgramRuns, AreResumedWhereTheListIsTheSame) {
  write_list(kTwoSizes);
  ASSERT_EQ(program.run({"--config=list.json", "--json=report.json"}).exit_code, 0);
  json partial = program.report();
  partial["status"] = "interrupted";
  partial["runs"].erase(1);
  program.write("partial.json", partial.dump());
  const auto result =
      program.run({"--config=list.json", "--resume=partial.json", "--json=whole.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("4 of its 4 runs are kept"));
  const json whole = program.report("whole.json");
  ASSERT_EQ(whole["runs"].size(), 5u);
  EXPECT_EQ(whole["runs"][1]["global_batch_size"], 32);
  EXPECT_EQ(whole["runs"][2]["step"], program.report()["runs"][2]["step"]);
  write_list(R"([{"strategy": "dp"}, {"strategy": "ddp"}])");
  const auto other = program.run({"--config=list.json", "--resume=partial.json", "--force"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("/config/runs was"));
}

// What the tutorial's configuration ranks, draws and recommends is of equal work, at any length.
TEST_F(ProgramRuns, OfTheTutorialCompareEqualWorkAlone) {
  const auto result =
      program.run({"--config=tutorial/mnist-notebook", "--json=report.json", "--epochs=1",
                   "--steps=2", "--warmup-steps=1", "--warmup-max-steps=1", "--verify-steps=0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 6u);
  std::multiset<std::string> arms;
  for (const json& run : report["runs"]) {
    arms.insert(fmt::format("{} {} {}", run["strategy"].get<std::string>(),
                            run["global_batch_size"].get<int>(),
                            run["strategy_options"]["loader_workers"].get<int>()));
    if (run["strategy"] == "single" || run["oversubscribed"].get<bool>()) continue;
    EXPECT_FALSE(run["scaling"].is_null()) << run["scaling_reason"];
  }
  EXPECT_EQ(arms, (std::multiset<std::string>{"dp 256 4", "ddp 2048 2", "ddp 256 2", "dp 2048 4",
                                              "single 256 4", "single 2048 4"}));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\nglobal batch 256: "), HasSubstr("\nglobal batch 2048: ")));
  EXPECT_EQ(report["answer"].size(), 2u);
  // Each size has a line of its own in a chart.
  const auto chart = program.run({"chart", "report.json", "-o", "chart.svg"});
  ASSERT_EQ(chart.exit_code, 0) << chart.err;
  EXPECT_THAT(program.read("chart.svg"), AllOf(HasSubstr("256"), HasSubstr("2048")));
  const auto page = program.run({"html", "report.json", "-o", "page.html"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(program.read("page.html"), HasSubstr("global batch 2048"));
}

// Each rung crosses this machine's memory, and the emulated network.
TEST_F(ProgramRuns, OfTheLadderAreItsRungsOverBothLinks) {
  const auto result = program.run({"--config=tutorial/ladder", "--device=cpu", "--dry-run"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("14 runs checked: all can start."));
  for (const char* rung : {"naive", "flat", "bucketed", "overlapped", "sharded"}) {
    EXPECT_THAT(
        result.out,
        AllOf(HasSubstr(fmt::format("link 1Gbit,50us, label {}:", rung)),
              testing::ContainsRegex(fmt::format("(overlap o[nf]+|MiB), label {}:", rung))));
  }
}

TEST_F(ProgramRuns, SpendWhatTheyAreToEmulateAndSayIt) {
  const auto result = program.run(small_run("dp", {"--loader-cost=500", "--emulate-gil=500",
                                                   "--loader-workers=0", "--steps=6", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  const json& run = report["runs"][0];
  EXPECT_EQ(run["strategy_options"]["loader_cost_us"], 500);
  EXPECT_EQ(run["strategy_options"]["emulated_gil_us"], 500);
  // 16 samples are assembled while the step waits for them.
  EXPECT_GT(run["phases"]["data_wait_s"], 16 * 500e-6);
  EXPECT_THAT(result.out, HasSubstr("% of a step is waiting for the loader: try more"));
  // The five layers with weights are a call each, or more.
  EXPECT_GT(run["phases"]["forward_s"], 5 * 500e-6 * 0.9);
  EXPECT_THAT(result.out, AllOf(testing::ContainsRegex("loader cost\\s+500 us a sample"),
                                HasSubstr("emulated GIL 500 us a call")));
  ASSERT_EQ(program
                .run({"--strategy=dp", "--gpus=2", "--config=lenet.json", "--loader-workers=0",
                      "--steps=6", "--json=plain.json"})
                .exit_code,
            0);
  const json plain = program.report("plain.json")["runs"][0]["strategy_options"];
  EXPECT_FALSE(plain.contains("loader_cost_us") || plain.contains("emulated_gil_us"));
  const auto check = program.run({"check", "report.json", "--baseline", "plain.json"});
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_THAT(check.err, HasSubstr("emulated_gil_us"));
}

// Each of the buckets crosses the link once a step, whose data are 240 KiB.
TEST_F(ProgramRuns, LastAsLongAsOverTheLinkThatTheyEmulateAndSayIt) {
  const auto result = program.run(small_run("ddp", {"--emulate-link=10Mbit,1ms", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  const json& run = report["runs"][0];
  EXPECT_EQ(run["strategy_options"]["emulated_link"], "10Mbit,1ms");
  EXPECT_EQ(run["verification"]["status"], "passed");
  const double bytes = 4.0 * run["parameters"].get<double>();
  EXPECT_GE(run["step"]["time_s"]["min"], 2e-3 + bytes / 1.25e6);
  EXPECT_THAT(result.out, testing::ContainsRegex("emulated\\s+link\\s+10Mbit,1ms"));
  ASSERT_EQ(program.run({"chart", "report.json", "-o", "chart.svg"}).exit_code, 0);
  EXPECT_THAT(program.read("chart.svg"), HasSubstr("emulated link 10Mbit,1ms"));
  ASSERT_EQ(program
                .run({"--strategy=ddp", "--gpus=2", "--config=lenet.json",
                      "--emulate-link=20Mbit,1ms", "--json=faster.json"})
                .exit_code,
            0);
  const auto check = program.run({"check", "report.json", "--baseline", "faster.json"});
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_THAT(check.err, HasSubstr("emulated_link"));
  const auto refused =
      program.run(small_run("ddp", {"--backend=gloo", "--emulate-link=10Mbit,1ms", "--force"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("gloo between cpu devices emulates no link"));
}

TEST_F(ProgramRuns, ThatStartFromUnequalWeightsAreNoticed) {
  const auto noticed = program.run(small_run("ddp", {"--inject=seed:rank=1"}));
  EXPECT_EQ(noticed.exit_code, 5);
  EXPECT_THAT(noticed.err, AllOf(HasSubstr("the starting weights of"),
                                 HasSubstr("differ from the reference's")));
  const json failed = program.report()["runs"][0];
  EXPECT_EQ(failed["error"]["kind"], "verification");
  EXPECT_EQ(failed["error"]["rank"], 1);
  // Without verification the run goes on, and learns less than one that starts as it should.
  const std::vector<std::string> long_run = {"--verify-steps=0", "--steps=60", "--lr=0.05",
                                             "--force"};
  std::vector<std::string> unequal = long_run;
  unequal.emplace_back("--inject=seed:rank=1");
  ASSERT_EQ(program.run(small_run("ddp", long_run)).exit_code, 0);
  const double right = program.report()["runs"][0]["epochs"][0]["train_loss"];
  ASSERT_EQ(program.run(small_run("ddp", unequal)).exit_code, 0);
  const json wrong = program.report()["runs"][0];
  EXPECT_EQ(wrong["injected"], "seed:rank=1");
  EXPECT_NE(wrong["epochs"][0]["train_loss"], right);
}

// One step an epoch, whose update is next to nothing: the loss tells which samples it took.
TEST_F(ProgramRuns, ThatForgetTheEpochTakeTheFirstOnesSamplesAgain) {
  const auto losses = [&](const std::string& strategy, const char* fault) {
    const auto result = program.run(small_run(
        strategy, {"--epochs=2", "--steps=1", "--lr=1e-12", "--verify-steps=0", fault, "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json epochs = program.report()["runs"][0]["epochs"];
    return std::pair<double, double>(epochs[0]["train_loss"], epochs[1]["train_loss"]);
  };
  const auto right = losses("ddp", "--observe=on"), wrong = losses("ddp", "--inject=epoch");
  EXPECT_EQ(program.report()["runs"][0]["injected"], "epoch");
  EXPECT_EQ(wrong.first, right.first);
  EXPECT_GT(std::abs(right.second - right.first), 1e-3);
  EXPECT_NEAR(wrong.second, wrong.first, 1e-6);
  // One process has one loader, which counts epochs itself.
  const auto counted = losses("dp", "--observe=on");
  EXPECT_EQ(losses("dp,ddp", "--inject=epoch"), counted);
  EXPECT_EQ(program.report()["runs"][0]["injected"], nullptr);
}

TEST_F(ProgramRuns, ThatForgetTheEpochAreNoticedInTheSecondOne) {
  const auto one_epoch =
      program.run(small_run("ddp", {"--steps=2", "--verify-steps=2", "--inject=epoch"}));
  EXPECT_EQ(one_epoch.exit_code, 0) << one_epoch.err;
  const auto two =
      program.run(small_run("ddp", {"--steps=1", "--verify-steps=2", "--inject=epoch", "--force"}));
  EXPECT_EQ(two.exit_code, 5) << two.err;
  EXPECT_THAT(two.err, HasSubstr("in step 2 of 2"));
}

TEST_F(ProgramRuns, CountMessagesAndBytesOfAStep) {
  ASSERT_EQ(program.run(small_run("single,dp,ddp,ps", {"--servers=1,2"})).exit_code, 0);
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 5u);
  const auto traffic = [&](std::size_t i, const char* key) {
    return report["runs"][i]["traffic"][key].get<std::int64_t>();
  };
  EXPECT_EQ(traffic(0, "messages"), 0);
  // Scatter, replicate, gather, gradients of the outputs; and to reduce, a half each and the
  // result.
  EXPECT_EQ(traffic(1, "messages"), 4 + 3);
  std::int64_t buckets = 0;
  for (const json& bucket : report["runs"][2]["devices"][0]["buckets"]) {
    buckets += bucket["bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(traffic(2, "bytes"), 2 * buckets);
  EXPECT_EQ(traffic(2, "busiest_bytes"), buckets);
  // Each worker sends each server a command and gradients, and gets the result.
  EXPECT_EQ(traffic(3, "messages"), 3 * 2 * 1);
  EXPECT_EQ(traffic(4, "messages"), 3 * 2 * 2);
  EXPECT_EQ(traffic(3, "bytes"), 4 * buckets + 2 * 8);
  EXPECT_EQ(traffic(4, "bytes"), 4 * buckets + 2 * 2 * 8);
  EXPECT_EQ(traffic(3, "busiest_bytes"), 2 * buckets + 2 * 8);
  EXPECT_LT(traffic(4, "busiest_bytes"), traffic(3, "busiest_bytes"));
  const auto shown = program.run(
      {"show", "report.json", "--columns=strategy,messages,wire,busiest-messages,busiest-wire"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("on wire"));
}

// Measured once for the devices of both strategies; cores that are shared have no peak.
TEST_F(ProgramRuns, TellTheShareOfTheDevicesPeak) {
  ASSERT_EQ(program.run(small_run("dp,ddp", {})).exit_code, 0);
  const json report = program.report();
  const json &dp = report["runs"][0]["throughput"], &ddp = report["runs"][1]["throughput"];
  if (report["runs"][0]["oversubscribed"].get<bool>()) {
    EXPECT_EQ(dp["peak_flops_per_s_per_device_reason"], "the devices share cores");
  } else {
    EXPECT_GT(dp["peak_flops_per_s_per_device"].get<double>(), 1e8);
    EXPECT_EQ(dp["peak_flops_per_s_per_device"], ddp["peak_flops_per_s_per_device"]);
  }
  const auto shown = program.run({"show", "report.json", "--columns=strategy,flops,peak-share"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("of peak %"));
}

}  // namespace
}  // namespace ddpbench
