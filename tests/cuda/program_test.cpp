// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs with --device=cuda on a machine without a GPU. The program opens a CUDA module of the
// real sources, kernels included, on a stand-in for NVIDIA's libraries.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "tests/bench/world_ranks.h"
#include "tests/cuda/cuda_program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using test::CudaProgram;
using test::expect_trained_on_cuda;
using test::losses;

struct StrategyCase {
  std::string strategy, backend, expected;
};

class EveryStrategy : public CudaProgram, public testing::WithParamInterface<StrategyCase> {};

TEST_P(EveryStrategy, TrainsOnCudaDevicesAndIsVerified) {
  // A server takes a GPU, too. NCCL is refused where devices share one.
  if (GetParam().strategy == "ps" && GetParam().backend == "nccl") {
    program.environment["STAND_IN_GPUS"] = "3";
  }
  const json run = CudaProgram::run(GetParam().strategy,
                                    {"--precision=fp32", "--backend=" + GetParam().backend});
  expect_trained_on_cuda(run);
  EXPECT_EQ(run.at("backend"), GetParam().expected);
  EXPECT_EQ(run.at("devices").at(0).at("device"), "cuda:0");
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, EveryStrategy,
    testing::Values(StrategyCase{"single", "auto", "none"}, StrategyCase{"dp", "auto", "nccl"},
                    StrategyCase{"dp", "shm", "shm"}, StrategyCase{"ddp", "auto", "nccl"},
                    StrategyCase{"ddp", "shm", "shm"}, StrategyCase{"ps", "auto", "shm"},
                    StrategyCase{"ps", "nccl", "nccl"}, StrategyCase{"zero1", "auto", "nccl"},
                    StrategyCase{"zero2", "auto", "nccl"}, StrategyCase{"zero2", "shm", "shm"},
                    StrategyCase{"zero3", "auto", "nccl"}, StrategyCase{"zero3", "shm", "shm"},
                    StrategyCase{"pipeline", "auto", "nccl"},
                    StrategyCase{"pipeline", "shm", "shm"}),
    [](const auto& tested) { return tested.param.strategy + "_" + tested.param.backend; });

// conv1 and pool1 as one operation, conv2's bias in pool2. With --deterministic no trial decides.
TEST_F(CudaProgram, StrategiesAgreeOnNetworksWhosePoolsAreJoined) {
  program.write("tiny.json", R"({"name": "joined", "input": [1, 28, 28], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "max_pool2d", "kernel": 2},
    {"name": "conv2", "type": "conv2d", "out_channels": 8, "kernel": 3, "stride": 2},
    {"name": "pool2", "type": "max_pool2d", "kernel": 2},
    {"name": "fc1", "type": "linear", "out_features": 10}]})");
  const auto trained = program.run(
      test::small_run("single,ddp", {"--device=cuda", "--gpus=2", "--deterministic",
                                     "--precision=fp32", "--verify-steps=2", "--force"}));
  EXPECT_EQ(trained.exit_code, 0) << trained.out << trained.err;
  const json report = program.report();
  EXPECT_EQ(report.at("runs").size(), 2);
  for (const json& run : report.at("runs")) expect_trained_on_cuda(run);
}

class NormalizedNetwork : public CudaProgram {
 protected:
  NormalizedNetwork() {
    program.write("tiny.json", R"({"name": "normalized", "input": [1, 28, 28], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 5, "stride": 4, "bias": false},
    {"name": "norm1", "type": "batch_norm2d"},
    {"name": "relu1", "type": "relu"},
    {"name": "conv2", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "norm2", "type": "batch_norm2d"},
    {"name": "sum", "type": "add", "inputs": ["norm2", "relu1"]},
    {"name": "relu2", "type": "relu"},
    {"name": "head", "type": "linear", "out_features": 10}]})");
  }
  // Trained runs of one command.
  json run_all(const std::string& strategies, std::vector<std::string> more) {
    more.insert(more.end(), {"--device=cuda", "--precision=fp32", "--force"});
    const auto result = program.run(test::small_run(strategies, more));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    json runs = program.report()["runs"];
    for (const json& run : runs) expect_trained_on_cuda(run);
    return runs;
  }
};

// In recorded steps, too, ranks count their batches and take rank 0's running statistics.
TEST_F(NormalizedNetwork, TrainsAlikeInEveryStrategy) {
  const json runs = run_all("dp,ddp,ps", {});
  ASSERT_EQ(runs.size(), 3u);
  for (const json& trained : runs) {
    const std::string strategy = trained.at("strategy");
    SCOPED_TRACE(strategy);
    EXPECT_EQ(trained.at("phases").contains("replicate_s"), strategy != "ps");
    EXPECT_EQ(trained.at("strategy_options").value("cuda_graph", false), strategy == "ddp");
  }
  const auto losses_of = [&](const std::string& graphs) {
    return losses(run("ddp", {"--precision=fp32", "--deterministic", "--cuda-graph=" + graphs}));
  };
  EXPECT_EQ(losses_of("on"), losses_of("off"));
}

TEST_F(NormalizedNetwork, AccumulatesInEveryStrategyWithoutGraphs) {
  const json runs = run_all("single,dp,ddp,ps,zero1,zero2,zero3", {"--accumulation-steps=2"});
  ASSERT_EQ(runs.size(), 7u);
  for (const json& trained : runs) {
    EXPECT_FALSE(trained.at("strategy_options").value("cuda_graph", false)) << trained;
  }
  expect_trained_on_cuda(
      run("localsgd", {"--precision=fp32", "--accumulation-steps=2", "--sync-every=1"}));
}

// The reference is one device that takes the global batch at once.
TEST_F(NormalizedNetwork, IsNormalisedOverTheGlobalBatchInEveryStrategy) {
  for (const std::string strategy : {"dp", "ddp", "ps"}) {
    SCOPED_TRACE(strategy);
    for (const std::string backend : {"nccl", "shm"}) {
      if (strategy == "ps" && backend == "nccl") continue;  // its server shares a GPU
      const json trained =
          run(strategy, {"--precision=fp32", "--sync-batch-norm=on", "--backend=" + backend});
      expect_trained_on_cuda(trained);
      EXPECT_GT(trained.at("phases").at("sync_batch_norm_s"), 0);
      EXPECT_FALSE(trained.at("strategy_options").value("cuda_graph", false));
    }
  }
  const auto refused = program.run(test::small_run(
      "ddp", {"--device=cuda", "--gpus=2", "--sync-batch-norm=on", "--cuda-graph=on", "--force"}));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("cannot be recorded"));
  expect_trained_on_cuda(
      run("ps", {"--precision=fp32", "--sync-batch-norm=on", "--server-device=cpu"}));
}

// A recorded step reads anew how many updates came before it.
TEST_F(CudaProgram, StrategiesAgreeWithEveryOptimizerAlsoInRecordedSteps) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> rows = {
      {"dp", {"--nesterov"}},
      {"ddp", {"--optimizer=adam"}},
      {"ps", {"--optimizer=adamw", "--lr=0.01"}},
      {"ddp", {"--lr-schedule=step", "--lr-step-size=1", "--lr-gamma=0.5", "--lr-warmup-steps=2"}}};
  for (const auto& [strategy, optimizer] : rows) {
    SCOPED_TRACE(optimizer[0]);
    const auto with = [&added = optimizer](std::vector<std::string> options) {
      options.insert(options.end(), added.begin(), added.end());
      options.insert(options.end(), {"--precision=fp32", "--deterministic"});
      return options;
    };
    const json recorded = run("ddp", with({"--cuda-graph=on"}));
    expect_trained_on_cuda(strategy == "ddp" ? recorded : run(strategy, with({})));
    EXPECT_EQ(losses(recorded), losses(run("ddp", with({"--cuda-graph=off"}))));
  }
}

// Over NCCL, with the hook's work and both of its transfers in the recorded step.
TEST_F(CudaProgram, HooksTravelInRecordedStepsAsInQueuedOnes) {
  for (const std::string hook : {"fp16", "int8", "topk:10", "powersgd:2"}) {
    SCOPED_TRACE(hook);
    const auto with = [&](const std::string& graph) {
      return run("ddp", {"--comm-hook=" + hook, "--cuda-graph=" + graph, "--deterministic",
                         hook == "powersgd:2" ? "--precision=bf16" : "--precision=fp32"});
    };
    const json recorded = with("on"), queued = with("off");
    EXPECT_EQ(recorded["backend"], "nccl");
    EXPECT_EQ(recorded["verification"]["replicas_bit_equal"], true);
    EXPECT_EQ(losses(recorded), losses(queued));
  }
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
  EXPECT_EQ(run.at("backend"), "shm");
}

// Two GPUs a process, in one process and in two.
TEST_F(CudaProgram, RanksThatShareAProcessUseNccl) {
  program.environment["STAND_IN_GPUS"] = "4";
  for (const char* const gpus : {"--gpus=2", "--gpus=4"}) {
    const json run = CudaProgram::run(
        "ddp", {gpus, "--devices-per-process=2", "--precision=fp32", "--backend=nccl"});
    expect_trained_on_cuda(run);
    EXPECT_EQ(run.at("strategy_options").at("cuda_graph"), true);
    EXPECT_EQ(run.at("devices").at(1).at("process_rank"), 0);
  }
  const auto shared =
      program.run(test::small_run("ddp", {"--device=cuda", "--gpus=6", "--oversubscribe",
                                          "--devices-per-process=3", "--backend=nccl", "--force"}));
  EXPECT_EQ(shared.exit_code, 3) << shared.out;
  EXPECT_THAT(shared.err, HasSubstr("nccl refuses ranks of one process that share a GPU"));
}

// Also where they share a GPU, in one process and in two.
TEST_F(CudaProgram, RanksThatShareAProcessUseSharedMemory) {
  for (const std::string devices : {"2", "3", "4"}) {
    const json run = CudaProgram::run(
        "ddp", {"--gpus=" + devices, "--devices-per-process=" + (devices == "4" ? "2" : devices),
                "--oversubscribe", "--precision=fp32", "--backend=shm"});
    expect_trained_on_cuda(run);
    EXPECT_EQ(run.at("backend"), "shm");
    EXPECT_EQ(run.at("strategy_options").at("cuda_graph"), false);
  }
}

struct CpuServers {
  int workers, servers;
  const char* update;
};

class ServersOnTheCpu : public CudaProgram, public testing::WithParamInterface<CpuServers> {};

TEST_P(ServersOnTheCpu, TrainAndAreVerified) {
  const auto [workers, servers, update] = GetParam();
  const json run = CudaProgram::run(
      "ps", {"--precision=fp32", "--server-device=cpu", fmt::format("--gpus={}", workers),
             fmt::format("--servers={}", servers), fmt::format("--ps-update={}", update)});
  expect_trained_on_cuda(run);
  EXPECT_EQ(run.at("backend"), "shm");
  EXPECT_EQ(run.at("strategy_options").at("server_device"), "cpu");
  ASSERT_EQ(run.at("devices").size(), static_cast<std::size_t>(workers + servers));
  for (const json& device : run.at("devices")) {
    const int rank = device.at("rank");
    const bool server = rank >= workers;
    EXPECT_EQ(device.at("role"), server ? "server" : "worker");
    EXPECT_EQ(device.at("device"), fmt::format("{}:{}", server ? "cpu" : "cuda", rank));
    EXPECT_EQ(device.at("cores").size(), server ? 1u : 0u);
    const json& bytes = device.at("memory").at("by_category_bytes");
    if (server) {
      EXPECT_GT(bytes.at("communication"), 0);
    }
    // The rank that updates has the optimizer's state.
    EXPECT_EQ(bytes.at("optimizer") > 0, server == (std::string(update) == "server"));
    EXPECT_EQ(device.at("memory").at("driver_bytes").is_null(), server);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ServersOnTheCpu,
                         testing::Values(CpuServers{1, 1, "server"}, CpuServers{2, 1, "server"},
                                         CpuServers{2, 2, "server"}, CpuServers{1, 2, "worker"},
                                         CpuServers{2, 2, "worker"}),
                         [](const auto& tested) {
                           return fmt::format("{}Workers{}ServersUpdateOnThe{}",
                                              tested.param.workers, tested.param.servers,
                                              tested.param.update);
                         });

// Both add up the mean in one order and have the same update formula.
TEST_F(CudaProgram, ServersOnTheCpuTrainWhatServersOnGpusTrain) {
  const json gpus = run("ps", {"--precision=fp32", "--server-device=cuda", "--servers=2"});
  const json cpus = run("ps", {"--precision=fp32", "--server-device=cpu", "--servers=2"});
  EXPECT_EQ(gpus.at("devices").at(2).at("device"), "cuda:2");
  const auto on_gpus = losses(gpus), on_cpus = losses(cpus);
  ASSERT_EQ(on_gpus.size(), on_cpus.size());
  for (std::size_t i = 0; i < on_gpus.size(); ++i) EXPECT_NEAR(on_gpus[i], on_cpus[i], 1e-4) << i;
}

TEST_F(CudaProgram, ServersOnTheCpuLeaveGpusToWorkers) {
  program.environment["STAND_IN_GPUS"] = "1";
  const json shared = run("ps", {"--gpus=1"});
  EXPECT_TRUE(shared.at("oversubscribed"));
  const json apart = run("ps", {"--gpus=1", "--server-device=cpu"});
  EXPECT_FALSE(apart.at("oversubscribed"));
}

TEST_F(CudaProgram, FaultsOfServersOnTheCpuAreCaught) {
  for (const char* fault : {"missing_bucket:bucket=0", "sum", "stale:rank=1,step=1"}) {
    const auto result = program.run(
        test::small_run("ps", {"--device=cuda", "--precision=fp32", "--force",
                               "--server-device=cpu", std::string("--inject=") + fault}));
    EXPECT_EQ(result.exit_code, 5) << fault << result.out << result.err;
  }
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The process of the program that is this rank; 0: none yet.
int process_of_rank(const test::Program& program, int rank) {
  const std::string variable = '\0' + fmt::format("RANK={}", rank) + '\0';
  for (const int pid : program.processes()) {
    const std::string environment = '\0' + text_of(fmt::format("/proc/{}/environ", pid));
    if (environment.find(variable) != std::string::npos) return pid;
  }
  return 0;
}

// A server that has mapped its workers' memory is set up. It does not need the CUDA module.
TEST_F(CudaProgram, AKilledServerOnTheCpuIsNamed) {
  json config = json::parse(program.read("lenet.json"));
  config["epochs"] = 1000;
  program.write("lenet.json", config.dump());
  const auto result = program.run(
      test::small_run("ps", {"--device=cuda", "--precision=fp32", "--server-device=cpu"}),
      [this](int) {
        int server = 0;
        std::string maps;
        EXPECT_TRUE(test::Program::wait_until([&] {
          server = process_of_rank(program, 2);
          maps = server > 0 ? text_of(fmt::format("/proc/{}/maps", server)) : "";
          return maps.find("ddpbench-staging") != std::string::npos;
        }));
        EXPECT_EQ(maps.find("libddpbench_cuda"), std::string::npos);
        if (server > 0) ::kill(server, SIGKILL);
      });
  EXPECT_EQ(result.exit_code, 4) << result.out << result.err;
  const json error = program.report().at("error");
  EXPECT_EQ(error.at("kind"), "signal") << error;
  EXPECT_EQ(error.at("rank"), 2) << error;
}

TEST_F(CudaProgram, RefusesServersThatCannotServe) {
  const auto on_cpus = program.run(test::small_run("ps", {"--device=cpu", "--server-device=cuda"}));
  EXPECT_EQ(on_cpus.exit_code, 2);
  EXPECT_THAT(on_cpus.err, HasSubstr("--server-device=cuda"));
  const auto by_nccl = program.run(
      test::small_run("ps", {"--device=cuda", "--server-device=cpu", "--backend=nccl"}));
  EXPECT_EQ(by_nccl.exit_code, 2);
  EXPECT_THAT(by_nccl.err, HasSubstr("--backend=nccl --server-device=cpu"));
  const auto unknown = program.run(test::small_run("ps", {"--server-device=gpu"}));
  EXPECT_EQ(unknown.exit_code, 2);
}

TEST_F(CudaProgram, AWorldOfALauncherHasServersOnTheCpuToo) {
  const auto results =
      program.run_together({"--strategy=ps", "--config=lenet.json", "--json=report.json",
                            "--device=cuda", "--precision=fp32", "--server-device=cpu"},
                           test::world(3, test::free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  const json& run = report.at("runs").at(0);
  expect_trained_on_cuda(run);
  EXPECT_EQ(run.at("devices").at(1).at("device"), "cuda:1");
  EXPECT_EQ(run.at("devices").at(2).at("device"), "cpu:2");
}

// Rank 0 needs the other ranks' results, which lie in host memory. NCCL cannot move that.
TEST_F(CudaProgram, AWorldOfALauncherReportsAllRanks) {
  const auto results =
      program.run_together({"--strategy=ddp", "--config=lenet.json", "--json=report.json",
                            "--device=cuda", "--precision=fp32"},
                           test::world(2, test::free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  expect_trained_on_cuda(report.at("runs").at(0));
  EXPECT_EQ(report.at("runs").at(0).at("devices").size(), 2u);
}

// A world in which rank r sees the GPUs of visible[r].
class OwnGpus : public CudaProgram {
 protected:
  std::vector<test::ProgramResult> run_seeing(const std::vector<std::string>& visible,
                                              const std::vector<std::string>& more = {},
                                              const std::string& strategy = "ddp",
                                              const std::string& device = "cuda") {
    program.environment["STAND_IN_GPUS"] = "4";
    auto ranks = test::world(static_cast<int>(visible.size()), test::free_port());
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r]["CUDA_VISIBLE_DEVICES"] = visible[r];
    std::vector<std::string> arguments = {"--strategy=" + strategy, "--config=lenet.json",
                                          "--json=report.json",     "--device=" + device,
                                          "--precision=fp32",       "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program.run_together(arguments, ranks);
  }
  // The process of rank 0 tells how it ended; the others have done what it said.
  void expect_exit(const std::vector<test::ProgramResult>& results, int exit_code) {
    EXPECT_EQ(results[0].exit_code, exit_code) << results[0].err;
    for (std::size_t r = 1; r < results.size(); ++r) {
      EXPECT_EQ(results[r].exit_code, 0) << results[r].err;
    }
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

TEST_F(OwnGpus, AreNotForServersOnTheCpu) {
  expect_exit(run_seeing({"3", "1", ""}, {"--servers=1", "--server-device=cpu"}, "ps"), 0);
  const json report = program.report();
  const json& run = report.at("runs").at(0);
  expect_trained_on_cuda(run);
  EXPECT_EQ(run.at("devices").at(2).at("device"), "cpu:2");
  EXPECT_EQ(report.at("environment").at("gpus").size(), 2u);
}

TEST_F(OwnGpus, AreTheLocalRanksWhereTheySeeSeveral) {
  expect_exit(run_seeing({"0,1", "0,1"}), 0);
  const json report = program.report();
  EXPECT_FALSE(report.at("runs").at(0).at("oversubscribed"));
  // Both take GPU 0: the first of two, and the only one.
  const auto refused = run_seeing({"0,1", "0"});
  expect_exit(refused, 3);
  EXPECT_THAT(refused[0].err, HasSubstr("there is 1 GPU here"));
}

TEST_F(OwnGpus, ThatAreOneAreRefusedUnlessTheyMayBeShared) {
  const auto refused = run_seeing({"1", "1"});
  expect_exit(refused, 3);
  EXPECT_THAT(refused[0].err, HasSubstr("there is 1 GPU here"));
  expect_exit(run_seeing({"1", "1"}, {"--oversubscribe"}), 0);
  const json report = program.report();
  EXPECT_TRUE(report.at("runs").at(0).at("oversubscribed"));
  EXPECT_EQ(report.at("runs").at(0).at("backend"), "shm");
}

// All ranks must know whether there are GPUs for all, even if only one rank sees none.
TEST_F(OwnGpus, AreThereForAllRanksOrForNone) {
  const auto refused = run_seeing({"0", "-1"});
  expect_exit(refused, 3);
  EXPECT_THAT(refused[0].err, HasSubstr("rank 1: "));
  expect_exit(run_seeing({"0", "-1"}, {}, "ddp", "auto"), 0);
  const json report = program.report();
  EXPECT_EQ(report.at("runs").at(0).at("device"), "cpu");
}

TEST_F(OwnGpus, AreSharedByRanksThatDoNotSeeEachOthers) {
  expect_exit(run_seeing({"0", "0", "1"}, {"--oversubscribe"}), 0);
}

TEST_F(CudaProgram, SaysWhatGpusThereAre) {
  EXPECT_THAT(program.run({"info"}).out, HasSubstr("cpu, cuda"));
  const json run = CudaProgram::run("single", {});
  const json report = program.report();
  ASSERT_EQ(report.at("environment").at("gpus").size(), 2u);
  EXPECT_EQ(report.at("environment").at("gpus").at(0).at("name"), "The host");
  EXPECT_THAT(report.at("environment").at("libraries").at("nccl"), testing::StartsWith("2."));
  EXPECT_EQ(run.at("precision"), "tf32");
}

}  // namespace
}  // namespace ddpbench
