// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The program as a user runs it: what it prints, writes and returns.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <cmath>

#include <fstream>
#include <ostream>
#include <set>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::HasSubstr;

// LeNet-5 on few digits: small enough for a test to train.
const std::string kTwoEpochs = test::small_config({.epochs = 2, .steps = 6, .warmup_steps = 2});

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { program.write("lenet.json", kTwoEpochs); }
  Program program;
};

using Report = ProgramTest;
using CommandLine = ProgramTest;

TEST_F(Report, ComparesAllStrategiesInOneVerifiedReport) {
  const auto result = program.run(small_run("single,dp,ddp,ps"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("report: report.json"));
  const json report = program.report();
  EXPECT_EQ(report["status"], "ok");
  ASSERT_EQ(report["runs"].size(), 4u);
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["status"], "ok");
    EXPECT_EQ(run["verification"]["status"], run["strategy"] == "single" ? "reference" : "passed");
    EXPECT_EQ(run["step"]["count"], 12);
    EXPECT_EQ(run["epochs"].size(), 2u);
    EXPECT_EQ(run["dataset"]["source"], "files");
  }
}

TEST_F(Report, CountsEveryTestSampleOnce) {
  ASSERT_EQ(program.run(small_run("ddp", {"--gpus=3", "--epochs=1"})).exit_code, 0);
  const json run = program.report()["runs"][0];
  const double accuracy = run["epochs"][0]["test_accuracy"];
  // The accuracy is a share of exactly 512 samples.
  EXPECT_NEAR(accuracy * 512, std::round(accuracy * 512), 1e-6);
  EXPECT_EQ(run["epochs"][0]["samples"], 6 * 8 * 3);
}

TEST_F(Report, GivesEqualLossesForEqualGlobalBatchesOnAllStrategies) {
  ASSERT_EQ(program.run(small_run("single,dp,ddp,ps", {"--global-batch-size=24", "--gpus=1,3"}))
                .exit_code,
            0);
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 7u);
  const double expected = report["runs"][0]["epochs"][1]["train_loss"];
  for (const json& run : report["runs"]) {
    const double loss = run["epochs"][1]["train_loss"];
    // fp32 sums are in another order, over 12 updates.
    EXPECT_NEAR(loss, expected, 1e-3 * expected) << run["strategy"] << run["world_size"];
    EXPECT_EQ(run["scaling_mode"], "strong");
  }
}

TEST_F(Report, RepeatsBitIdenticalResults) {
  ASSERT_EQ(program.run(small_run("ddp", {"--repetitions=2"})).exit_code, 0);
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["epochs"][1]["train_loss"], runs[1]["epochs"][1]["train_loss"]);
  EXPECT_EQ(runs[0]["verification"]["max_relative_error"],
            runs[1]["verification"]["max_relative_error"]);
}

TEST_F(Report, MarksOversubscribedRunsAndGivesThemNoEfficiency) {
  const ProgramResult result =
      program.run(small_run("single,ddp", {"--gpus=64", "--oversubscribe", "--verify-steps=0",
                                           "--epochs=1", "--steps=1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][1];
  EXPECT_EQ(run["oversubscribed"], true);
  EXPECT_TRUE(run["scaling"].is_null());
  EXPECT_FALSE(run["scaling_reason"].get<std::string>().empty());
}

TEST_F(Report, ShowsTheParameterServersBesideTheWorkers) {
  ASSERT_EQ(program.run(small_run("ps", {"--servers=2", "--ps-update=worker"})).exit_code, 0);
  const json run = program.report()["runs"][0];
  ASSERT_EQ(run["devices"].size(), 4u);
  EXPECT_EQ(run["devices"][2]["role"], "server");
  EXPECT_EQ(run["world_size"], 2);
  EXPECT_EQ(run["servers"], 2);
}

TEST_F(Report, ShowsThePrimarysExcessMemoryInDataParallel) {
  ASSERT_EQ(program.run(small_run("dp")).exit_code, 0);
  const json devices = program.report()["runs"][0]["devices"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_GT(devices[0]["memory"]["peak_bytes"], devices[1]["memory"]["peak_bytes"]);
}

TEST_F(Report, RecordsBucketsOfEveryRank) {
  ASSERT_EQ(
      program.run(small_run("ddp", {"--first-bucket-mb=0.01", "--bucket-cap-mb=0.05"})).exit_code,
      0);
  const json report = program.report();
  for (const json& device : report["runs"][0]["devices"]) {
    ASSERT_GT(device["buckets"].size(), 1u);
    for (const json& bucket : device["buckets"]) {
      EXPECT_LE(bucket["ready_s"], bucket["start_s"]);
      EXPECT_LE(bucket["start_s"], bucket["end_s"]);
    }
  }
}

TEST_F(Report, CarriesTheResolvedConfigurationAndTheArguments) {
  program.environment["DDPBENCH_LR"] = "0.125";
  ASSERT_EQ(program.run(small_run("single", {"--epochs=1"})).exit_code, 0);
  const json report = program.report();
  EXPECT_EQ(report["config"]["epochs"], 1);
  EXPECT_EQ(report["config"]["batch_size"], 8);
  EXPECT_EQ(report["runs"][0]["optimizer"]["lr"], 0.125);
  EXPECT_THAT(report["argv"][1].get<std::string>(), HasSubstr("single"));
}

TEST_F(Report, IsNotOverwrittenWithoutForce) {
  program.write("report.json", "precious");
  const auto result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("report.json"));
  EXPECT_EQ(program.read("report.json"), "precious");
  EXPECT_EQ(program.run(small_run("single", {"--force", "--epochs=1"})).exit_code, 0);
  EXPECT_EQ(program.report()["status"], "ok");
}

TEST_F(Report, GoesToTheWorkingDirectoryWithTheTimeInItsName) {
  ASSERT_EQ(program.run({"--strategy=single", "--config=lenet.json", "--epochs=1"}).exit_code, 0);
  int reports = 0;
  for (const auto& entry : std::filesystem::directory_iterator(program.directory())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("ddpbench-") && name.ends_with("Z.json")) ++reports;
  }
  EXPECT_EQ(reports, 1);
}

// The generator's digits look enough like digits for a network to tell them apart.
TEST(DrawnDigits, AreLearned) {
  Program program(Program::Digits::none);
  program.write("lenet.json", kTwoEpochs);
  ASSERT_EQ(program
                .run(small_run("single", {"--epochs=1", "--steps=800", "--batch-size=32",
                                          "--lr=0.01", "--verify-steps=0"}))
                .exit_code,
            0);
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["dataset"]["source"], "synthetic");
  EXPECT_GT(run["epochs"].back()["test_accuracy"], 0.95);
}

TEST_F(Report, SurvivesObservationTurnedOff) {
  ASSERT_EQ(program.run(small_run("ddp", {"--observe=off"})).exit_code, 0);
  const json run = program.report()["runs"][0];
  EXPECT_TRUE(run["phases"]["forward_s"].is_null());
  EXPECT_GT(run["step"]["time_s"]["median"], 0);
}

TEST_F(Report, WaitsForEverWithATimeoutOfZero) {
  ASSERT_EQ(program.run(small_run("ddp,ps", {"--timeout=0", "--epochs=1"})).exit_code, 0);
  EXPECT_EQ(program.report()["status"], "ok");
}

TEST_F(Report, SaysThatVerificationIsOff) {
  ASSERT_EQ(program.run(small_run("ddp", {"--verify-steps=0", "--epochs=1"})).exit_code, 0);
  EXPECT_EQ(program.report()["runs"][0]["verification"]["status"], "off");
}

TEST_F(Report, SavedWeightsContinueWhereTheyLeftOff) {
  ASSERT_EQ(program.run(small_run("ddp", {"--save-model=m.safetensors", "--epochs=1"})).exit_code,
            0);
  ASSERT_EQ(program
                .run({"--strategy=single", "--config=lenet.json", "--json=second.json",
                      "--load-model=m.safetensors", "--epochs=1"})
                .exit_code,
            0);
  const json saved = program.report()["runs"][0], loaded = program.report("second.json")["runs"][0];
  EXPECT_LT(loaded["epochs"][0]["train_loss"], saved["epochs"][0]["train_loss"]);
  EXPECT_GT(loaded["time"]["load_s"], 0);
  EXPECT_EQ(saved["time"]["load_s_reason"], "nothing was loaded");
  EXPECT_EQ(loaded["time"]["save_s"], nullptr);
  EXPECT_EQ(loaded["time"]["save_s_reason"], "no weights were saved");
  EXPECT_NEAR(saved["time"]["train_s"], saved["epochs"][0]["time_s"], 0.05);
  double parts_s = 0;
  for (const char* part : {"verify_s", "warmup_s", "train_s", "evaluate_s", "save_s"}) {
    EXPECT_GT(saved["time"][part], 0) << part;
    parts_s += saved["time"][part].get<double>();
  }
  EXPECT_LT(parts_s, saved["time"]["total_s"]);
}

TEST_F(Report, OfNoEpochEvaluatesTheLoadedWeights) {
  ASSERT_EQ(program.run(small_run("single", {"--save-model=m.safetensors"})).exit_code, 0);
  const json trained = program.report()["runs"][0]["epochs"].back();
  const auto result = program.run(
      small_run("single,dp,ddp,ps", {"--epochs=0", "--load-model=m.safetensors", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const double loss = program.report()["runs"][0]["evaluation"]["loss"];
  EXPECT_THAT(result.out,
              HasSubstr(fmt::format("evaluated, not trained: loss {:.4f}, accuracy {:.2f} %", loss,
                                    100 * trained["test_accuracy"].get<double>())));
  for (const json& run : program.report()["runs"]) {
    EXPECT_EQ(run["status"], "ok");
    EXPECT_EQ(run["evaluation"]["accuracy"], trained["test_accuracy"]);
    EXPECT_NEAR(run["evaluation"]["loss"], loss, 1e-5);
    EXPECT_EQ(run["evaluation"]["samples"], run["dataset"]["test_samples"]);
    EXPECT_EQ(run["step"]["count"], 0);
    EXPECT_EQ(run["epochs"], json::array());
    EXPECT_EQ(run["time"]["train_s_reason"], "no step was taken (--epochs=0)");
    EXPECT_GT(run["time"]["evaluate_s"], 0);
  }
  for (const char* format : {"csv", "github-benchmark", "markdown"})
    EXPECT_EQ(program.run({"show", "report.json", std::string("--format=") + format}).exit_code, 0);
  EXPECT_EQ(program.run({"html", "report.json"}).exit_code, 0);
  const auto traced = program.run(small_run("ddp", {"--epochs=0", "--trace=t.json", "--force"}));
  EXPECT_EQ(traced.exit_code, 2);
  EXPECT_THAT(traced.err, HasSubstr("--epochs=0 takes no steps"));
}

// Start weights guess: their loss is near ln(10).
TEST_F(Report, OfNoEpochAndNoWeightsEvaluatesTheStartWeights) {
  ASSERT_EQ(program.run(small_run("single", {"--epochs=0"})).exit_code, 0);
  const json run = program.report()["runs"][0];
  EXPECT_NEAR(run["evaluation"]["loss"], std::log(10), 0.2);
  EXPECT_LT(run["evaluation"]["accuracy"], 0.3);
}

struct BadCommand {
  std::string name;
  std::vector<std::string> arguments;
  int exit_code;
  std::string message;  // a part of it
};

void PrintTo(const BadCommand& command, std::ostream* out) { *out << command.name; }

class BadCommands : public ProgramTest, public testing::WithParamInterface<BadCommand> {};

TEST_P(BadCommands, AreRefusedWithAClearError) {
  program.write("truncated.json", R"({"model": "lenet5", )");
  program.write("typo.json", R"({"modle": "lenet5"})");
  program.write("model.json", R"({"name": "m", "input": [1, 28, 28], "layers": [
      {"name": "fc1", "type": "linear", "in_features": 5, "out_features": 10}]})");
  program.write("no_data.json", R"({"dataset": {"name": "mnist", "on_missing": "error"}})");
  program.write("absent_model.json", R"({"model": "lenet"})");
  program.write("wrong_model.json", R"({"model": "model.json"})");
  program.write("data/mnist/train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0", 6));
  std::filesystem::remove_all(program.path(".cache"));
  const auto result = program.run(GetParam().arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_TRUE(program.processes().empty());
}

INSTANTIATE_TEST_SUITE_P(
    , BadCommands,
    testing::Values(
        BadCommand{"UnknownOption", {"--strategi=ddp"}, 2, "--strategy"},
        BadCommand{"UnknownStrategy", {"--strategy=dpd"}, 2, "dpd"},
        BadCommand{"TruncatedConfiguration", {"--config=truncated.json"}, 2, "truncated.json"},
        BadCommand{"MisspeltKey", {"--config=typo.json"}, 2, "/modle"},
        BadCommand{"AbsentConfiguration", {"--config=mnits"}, 2, "mnist"},
        BadCommand{"AbsentData", {"--config=no_data.json", "--strategy=single"}, 2, "data fetch"},
        BadCommand{"UnknownDataSet", {"data", "fetch", "mnits"}, 2, "mnist"},
        BadCommand{"AbsentModel", {"--config=absent_model.json"}, 2, "lenet5"},
        BadCommand{"WrongModelShape", {"--config=wrong_model.json"}, 2, "/layers/0"},
        BadCommand{"ExistingWeights",
                   {"--config=lenet.json", "--strategy=single", "--save-model=lenet.json"},
                   2,
                   "save-model"},
        BadCommand{"AbsentReportFolder",
                   {"--strategy=single", "--config=lenet.json", "--json=no/such/r.json"},
                   2,
                   "no/such"},
        BadCommand{"NoCudaModule", {"--device=cuda", "--strategy=single"}, 3, "cuda"},
        BadCommand{"NoNcclForCpu", {"--backend=nccl", "--device=cpu"}, 3, "nccl"},
        BadCommand{"MpiWithoutMpirun", {"--backend=mpi", "--gpus=2", "--device=cpu"}, 3, "mpi"},
        BadCommand{"MpiOfComm", {"comm", "--backend=mpi"}, 3, "mpirun -n RANKS ddpbench"},
        BadCommand{"Rocm", {"--device=rocm"}, 2, "auto, cpu, cuda"},
        BadCommand{"MisspeltBackend", {"--backend=nccll"}, 2, "Did you mean 'nccl'?"},
        BadCommand{
            "IndivisibleBatch", {"--strategy=ddp", "--gpus=3", "--global-batch-size=64"}, 2, "64"},
        BadCommand{"DamagedData",
                   {"--config=lenet.json", "--data-dir=data", "--strategy=single"},
                   2,
                   "train-images"},
        BadCommand{"AbsentDataFolder",
                   {"--config=lenet.json", "--data-dir=no/such", "--strategy=single"},
                   2,
                   "no such directory"},
        BadCommand{"AbsentWeightsOfADryRun",
                   {"--config=lenet.json", "--strategy=single", "--load-model=none.safetensors",
                    "--dry-run"},
                   2,
                   "none.safetensors"},
        BadCommand{"ZeroDevices", {"--gpus=0"}, 2, "gpus"},
        BadCommand{"SeveralSavedModels",
                   {"--strategy=single,ddp", "--save-model=m.safetensors"},
                   2,
                   "save-model"},
        BadCommand{"AbsentWeights",
                   {"--config=lenet.json", "--strategy=single", "--load-model=none.safetensors"},
                   2,
                   "none.safetensors"}),
    [](const auto& p) { return p.param.name; });

TEST_F(CommandLine, ShowsInfoHelpAndVersion) {
  const auto info = program.run({"info"});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.out, HasSubstr("onednn"));
  for (const char* backend : {"shm ", "nccl ", "gloo ", "mpi "}) {
    EXPECT_THAT(info.out, HasSubstr(std::string("\n  ") + backend));
  }
  // Each with its version, or why it is not here.
  for (const char* engine : {"\n  gloo [^\n]*(Gloo [0-9]|not here: the Gloo module)",
                             "\n  mpi [^\n]*(MPI [0-9]|not here: the MPI module)"}) {
    EXPECT_THAT(info.out, testing::ContainsRegex(engine));
  }
  EXPECT_EQ(program.run({"--help"}).exit_code, 0);
  EXPECT_EQ(program.run({"--version"}).exit_code, 0);
}

TEST_F(CommandLine, DryRunPrintsThePlanAndTrainsNothing) {
  const auto result = program.run(small_run("single,ddp", {"--dry-run"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("ddp on 2 devices"));
  EXPECT_FALSE(std::filesystem::exists(program.path("report.json")));
}

// As the checkouts of a base and of a change have it: the same network in two places.
TEST_F(CommandLine, KnowsANetworkByItsContent) {
  const auto config = [](const std::string& model) {
    auto document = nlohmann::json::parse(test::small_config({}));
    document["model"] = model;
    document["strategy"] = "single";
    return document.dump();
  };
  const std::string head = R"({"name": "head", "type": "linear", "out_features": 10)";
  const std::string input = R"("input": [1, 28, 28])";
  program.write("base/net.json",
                R"({"name": "mine", )" + input + R"(, "layers": [)" + head + "}]}");
  program.write("new/net.json", "{" + input + R"(, "layers":
      [)" + head + R"(}], "name": "mine"})");
  program.write("other/net.json", R"({"name": "mine", )" + input + R"(, "layers": [)" + head +
                                      R"(, "bias": false}]})");
  for (const char* side : {"base", "new", "other"}) {
    program.write(std::string(side) + ".config.json", config(std::string(side) + "/net.json"));
    const auto made = program.run({std::string("--config=") + side + ".config.json",
                                   std::string("--json=") + side + ".json"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_THAT(made.out, HasSubstr("\nmine on mnist"));
  }
  EXPECT_EQ(program.report("base.json")["runs"][0]["model_hash"],
            program.report("new.json")["runs"][0]["model_hash"]);
  const auto same = program.run({"check", "new.json", "--baseline", "base.json"});
  EXPECT_NE(same.exit_code, 2) << same.err;
  EXPECT_THAT(same.out, HasSubstr("1 pair compared"));
  const auto other = program.run(
      {"check", "other.json", "--baseline", "base.json", "--allow-mismatch=parameters"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("model_hash: new "));
}

TEST_F(CommandLine, ListsWhatDataIsThere) {
  const auto result = program.run({"data", "list"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("train-images-idx3-ubyte"));
}

// Libraries of other backends and of downloads cost start-up time and memory.
TEST_F(CommandLine, CpuRunsMapNoLibrariesThatTheyDoNotUse) {
  std::set<std::string> mapped;
  program.run(small_run("ddp", {"--steps=100000", "--epochs=5000"}), [&](int pid) {
    Program::wait_until([&] { return program.processes().size() >= 3; });
    for (const int process : program.processes()) {
      std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
      for (std::string line; std::getline(maps, line);) {
        if (line.find(".so") != std::string::npos) mapped.insert(line.substr(line.rfind('/') + 1));
      }
    }
    ::kill(pid, SIGTERM);
  });
  EXPECT_FALSE(mapped.empty());
  for (const std::string& library : mapped) {
    for (const char* unwanted :
         {"libcuda", "libcudart", "libcudnn", "libcublas", "libnccl", "libcurl"}) {
      EXPECT_FALSE(library.starts_with(unwanted)) << library;
    }
  }
}

}  // namespace
}  // namespace ddpbench
