// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs with --device=cuda on a machine without a GPU: the program opens a CUDA module whose
// device and operations are the real sources on a stand-in for NVIDIA's libraries, and whose
// communicators are the CPU's. What is tested is all that lies between: choice and placement of
// devices, batches that travel, steps that run ahead and are replayed, verification, reports.
#include <gmock/gmock.h>

#include "tests/bench/joined_ranks.h"
#include "tests/cuda/cuda_program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using test::CudaProgram;

void expect_trained_on_cuda(const json& run) {
  EXPECT_EQ(run.at("status"), "ok") << run;
  EXPECT_EQ(run.at("device"), "cuda");
  EXPECT_EQ(run.at("device_model"), "The host");
  EXPECT_EQ(run.at("verification").at("status"),
            run.at("strategy") == "single" ? "reference" : "passed")
      << run.at("verification");
  EXPECT_GT(run.at("step").at("count"), 0);
  for (const json& time : run.at("step").at("samples_s")) EXPECT_GT(time, 0);
  EXPECT_GT(run.at("phases").at("forward_s"), 0);
}

class EveryStrategy : public CudaProgram, public testing::WithParamInterface<const char*> {};

TEST_P(EveryStrategy, TrainsOnCudaDevicesAndIsVerified) {
  const json run = CudaProgram::run(GetParam(), {"--precision=fp32"});
  expect_trained_on_cuda(run);
  // A server takes a GPU too, so ps shares them here, which NCCL refuses.
  const std::string strategy = GetParam();
  EXPECT_EQ(run.at("backend"), strategy == "single" ? "none" : strategy == "ps" ? "ring" : "nccl");
  EXPECT_EQ(run.at("devices").at(0).at("device"), "cuda:0");
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategy, testing::Values("single", "dp", "ddp", "ps"));

// What the run trained, to all digits that the report has.
std::vector<double> losses(const json& run) {
  std::vector<double> all;
  for (const json& epoch : run.at("epochs")) {
    all.push_back(epoch.at("train_loss"));
    all.push_back(epoch.at("test_accuracy"));
  }
  return all;
}

TEST_F(CudaProgram, ReplayedStepsTrainWhatQueuedStepsTrain) {
  for (const char* strategy : {"single", "ddp"}) {
    const json queued = run(strategy, {"--precision=fp32", "--cuda-graph=off", "--epochs=2"});
    const json replayed = run(strategy, {"--precision=fp32", "--cuda-graph=on", "--epochs=2"});
    expect_trained_on_cuda(replayed);
    EXPECT_EQ(losses(queued), losses(replayed)) << strategy;
  }
}

TEST_F(CudaProgram, OneReportHasBothTimesWithAndWithoutGraphs) {
  const auto result = program.run(test::small_run(
      "single,dp,ddp", {"--device=cuda", "--cuda-graph=on,off", "--repetitions=2"}));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const json report = program.report();
  EXPECT_EQ(report.at("config").at("cuda_graph"), json({"on", "off"}));
  std::map<std::pair<std::string, std::string>, int> runs;  // strategy and graphs
  for (const json& run : report.at("runs")) {
    const json graph = run.at("strategy_options").value("cuda_graph", json());
    ++runs[{run.at("strategy"), graph.dump()}];
    EXPECT_GT(run.at("step").at("time_s").at("median"), 0);
  }
  const std::map<std::pair<std::string, std::string>, int> expected = {{{"single", "true"}, 2},
                                                                       {{"single", "false"}, 2},
                                                                       {{"dp", "null"}, 2},
                                                                       {{"ddp", "true"}, 2},
                                                                       {{"ddp", "false"}, 2}};
  EXPECT_EQ(runs, expected);
  EXPECT_EQ(report.at("cells").size(), expected.size());
  EXPECT_THAT(result.out, HasSubstr("cuda_graph=on"));
  EXPECT_THAT(result.out, HasSubstr("cuda_graph=off"));
}

TEST_F(CudaProgram, SaysWhichGraphsCannotBeListed) {
  const auto refused =
      program.run(test::small_run("single", {"--device=cuda", "--cuda-graph=auto,on"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("list on,off"));
  const auto dp = program.run(test::small_run("dp", {"--device=cuda", "--cuda-graph=on"}));
  EXPECT_EQ(dp.exit_code, 3);
}

TEST_F(CudaProgram, ResolvesTheBackendWhereAllRunsHaveOne) {
  const auto backend = [this](const std::string& strategies) {
    const auto result =
        program.run(test::small_run(strategies, {"--device=cuda", "--verify-steps=0", "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json report = program.report();
    return report.at("config").at("backend");
  };
  EXPECT_EQ(backend("single,ddp"), "nccl");
  EXPECT_EQ(backend("single"), "auto");
  EXPECT_EQ(backend("ddp,ps"), "auto");  // ps shares GPUs here, which NCCL refuses
}

TEST_F(CudaProgram, DataOnTheDeviceIsTheSameData) {
  for (const char* strategy : {"single", "dp", "ddp"}) {
    const json host = run(strategy, {"--precision=fp32", "--residency=host"});
    const json device = run(strategy, {"--precision=fp32", "--residency=device"});
    expect_trained_on_cuda(device);
    EXPECT_EQ(losses(host), losses(device)) << strategy;
  }
}

TEST_F(CudaProgram, TrainsInEveryPrecisionAndSaysWhich) {
  for (const char* precision : {"tf32", "bf16"}) {
    const json run = CudaProgram::run("single", {std::string("--precision=") + precision});
    expect_trained_on_cuda(run);
    EXPECT_EQ(run.at("precision"), precision);
  }
}

TEST_F(CudaProgram, TrainsWhatTheCpuTrains) {
  const json cuda = run("ddp", {"--precision=fp32"});
  const auto result = program.run(test::small_run("ddp", {"--device=cpu", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  const auto on_cpu = losses(report.at("runs").at(0)), on_cuda = losses(cuda);
  ASSERT_EQ(on_cpu.size(), on_cuda.size());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) EXPECT_NEAR(on_cpu[i], on_cuda[i], 1e-3) << i;
}

TEST_F(CudaProgram, CatchesAPlantedFault) {
  const auto result =
      program.run(test::small_run("ddp", {"--device=cuda", "--precision=fp32", "--inject=sum"}));
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
}

TEST_F(CudaProgram, ReportsWhatTheDriverSaysOfItsMemory) {
  const json run = CudaProgram::run("ddp", {"--deterministic"});
  for (const json& device : run.at("devices")) {
    const json& bytes = device.at("memory").at("driver_bytes");
    EXPECT_GE(bytes.at("at_end"), bytes.at("with_communicators"));
    EXPECT_GE(bytes.at("with_communicators"), bytes.at("with_context"));
  }
}

TEST_F(CudaProgram, RefusesMoreDevicesThanGpusUnlessTheyMayShare) {
  const auto refused = program.run(test::small_run("ddp", {"--device=cuda", "--gpus=3"}));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("--gpus=3: there are 2 GPUs here"));
  const json run = CudaProgram::run("ddp", {"--gpus=3", "--oversubscribe", "--precision=fp32"});
  EXPECT_TRUE(run.at("oversubscribed"));
  EXPECT_EQ(run.at("backend"), "ring");
}

// Rank 0 needs what the others found, which lies in host memory that NCCL cannot move.
TEST_F(CudaProgram, AJoinedWorldReportsAllRanks) {
  const auto results =
      program.run_together({"--strategy=ddp", "--config=lenet.json", "--json=report.json",
                            "--device=cuda", "--precision=fp32"},
                           test::world(2, test::free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  expect_trained_on_cuda(report.at("runs").at(0));
  EXPECT_EQ(report.at("runs").at(0).at("devices").size(), 2u);
}

// A world of ranks that see what `visible` says, [rank].
class OwnGpus : public CudaProgram {
 protected:
  std::vector<test::ProgramResult> run_seeing(const std::vector<std::string>& visible,
                                              const std::vector<std::string>& more = {},
                                              const std::string& strategy = "ddp") {
    program.environment["STAND_IN_GPUS"] = "4";
    auto ranks = test::world(static_cast<int>(visible.size()), test::free_port());
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r]["CUDA_VISIBLE_DEVICES"] = visible[r];
    std::vector<std::string> arguments = {"--strategy=" + strategy, "--config=lenet.json",
                                          "--json=report.json",     "--device=cuda",
                                          "--precision=fp32",       "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program.run_together(arguments, ranks);
  }
  void expect_exit(const std::vector<test::ProgramResult>& results, int exit_code) {
    for (const auto& result : results) EXPECT_EQ(result.exit_code, exit_code) << result.err;
  }
};

TEST_F(OwnGpus, AreTakenByTheRanksThatSeeThem) {
  expect_exit(run_seeing({"2", "0"}), 0);
  const json report = program.report();
  const json& run = report.at("runs").at(0);
  expect_trained_on_cuda(run);
  EXPECT_EQ(run.at("backend"), "nccl");
  EXPECT_FALSE(run.at("oversubscribed"));
  EXPECT_EQ(run.at("devices").size(), 2u);
  ASSERT_EQ(report.at("environment").at("gpus").size(), 2u);
  const json uuid = report.at("environment").at("gpus").at(0).at("uuid");
  EXPECT_THAT(uuid.get<std::string>(), HasSubstr("GPU-02"));
}

TEST_F(OwnGpus, AreTakenByServersToo) {
  expect_exit(run_seeing({"0", "1", "2"}, {"--servers=1"}, "ps"), 0);
  const json report = program.report();
  EXPECT_EQ(report.at("runs").at(0).at("backend"), "nccl");
}

TEST_F(OwnGpus, ArePickedSoThatRanksDoNotShareWhereTheySeeSeveral) {
  expect_exit(run_seeing({"0,1", "0", "1,3"}), 3);  // rank 0 takes the only one of rank 1
  expect_exit(run_seeing({"0", "0,1"}), 0);
  const json report = program.report();
  EXPECT_FALSE(report.at("runs").at(0).at("oversubscribed"));
}

TEST_F(OwnGpus, ThatAreOneAreRefusedUnlessTheyMayBeShared) {
  const auto refused = run_seeing({"1", "1"});
  expect_exit(refused, 3);
  EXPECT_THAT(refused[0].err, HasSubstr("there is 1 GPU here"));
  expect_exit(run_seeing({"1", "1"}, {"--oversubscribe"}), 0);
  const json report = program.report();
  EXPECT_TRUE(report.at("runs").at(0).at("oversubscribed"));
  EXPECT_EQ(report.at("runs").at(0).at("backend"), "ring");
}

TEST_F(OwnGpus, CannotBeMappedByTheRing) {
  const auto refused = run_seeing({"0", "1"}, {"--backend=ring"});
  expect_exit(refused, 3);
  EXPECT_THAT(refused[1].err, HasSubstr("rank 0 does not see rank 1's GPU GPU-01"));
  // Ranks that share a GPU need the ring, which a rank that cannot see all stops.
  expect_exit(run_seeing({"0", "0", "1"}, {"--oversubscribe"}), 3);
}

TEST_F(CudaProgram, SaysWhatGpusThereAre) {
  EXPECT_THAT(program.run({"info"}).out, HasSubstr("cpu, cuda"));
  const json run = CudaProgram::run("single", {});
  const json report = program.report();
  ASSERT_EQ(report.at("environment").at("gpus").size(), 2u);
  EXPECT_EQ(report.at("environment").at("gpus").at(0).at("name"), "The host");
  EXPECT_EQ(report.at("environment").at("libraries").at("nccl"), "stand-in");
  EXPECT_EQ(run.at("precision"), "tf32");
}

}  // namespace
}  // namespace ddpbench
