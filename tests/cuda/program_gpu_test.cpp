// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of the program with --device=cuda whose ranks may share one GPU. The same tests run on
// a GPU and on the stand-in (see program_test.cpp).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "tests/cuda/cuda_program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using test::CudaProgram;
using test::expect_trained_on_cuda;
using test::losses;

struct World {
  std::string strategy;
  int gpus;
  std::string backend, precision = "fp32";
};

class SharedGpu : public CudaProgram, public testing::WithParamInterface<World> {
 protected:
  // Also on the stand-in.
  SharedGpu() { program.environment["STAND_IN_GPUS"] = "1"; }
};

// "verified": within derived bounds of what one device computes from the same batches.
TEST_P(SharedGpu, TrainsWhatOneDeviceTrains) {
  const auto& [strategy, gpus, backend, precision] = GetParam();
  if (!has_precision(precision)) GTEST_SKIP() << "this GPU has no " << precision;
  std::vector<std::string> options = {fmt::format("--gpus={}", gpus), "--backend=" + backend,
                                      "--oversubscribe", "--precision=" + precision};
  if (precision == "fp16" && strategy == "ps") options.emplace_back("--ps-update=worker");
  const json run = CudaProgram::run(strategy, options);
  expect_trained_on_cuda(run);
  EXPECT_EQ(run.contains("loss_scaling"), precision == "fp16");
  if (precision == "fp16") {
    EXPECT_GT(run.at("loss_scaling").at("scale"), 1);
  }
  EXPECT_EQ(run.at("precision"), precision);
  EXPECT_EQ(run.at("world_size"), gpus);
  const auto devices = run.at("devices").size();
  EXPECT_EQ(devices, static_cast<std::size_t>(strategy == "ps" ? gpus + 1 : gpus));
  EXPECT_EQ(run.at("backend"), devices == 1 ? "none" : backend);
  EXPECT_EQ(run.at("oversubscribed"), devices > 1);
}

// A server also shares the GPU. NCCL allows ranks to share one when each is a process.
INSTANTIATE_TEST_SUITE_P(
    Worlds, SharedGpu,
    testing::Values(World{"single", 1, "shm"}, World{"single", 1, "shm", "tf32"},
                    World{"single", 1, "shm", "bf16"}, World{"single", 1, "shm", "fp16"},
                    World{"dp", 2, "shm", "fp16"}, World{"ddp", 2, "shm", "fp16"},
                    World{"zero1", 2, "shm", "fp16"}, World{"zero2", 2, "shm", "fp16"},
                    World{"zero3", 2, "shm", "fp16"}, World{"zero3", 2, "shm", "bf16"},
                    World{"ps", 2, "shm", "fp16"}, World{"dp", 1, "shm"}, World{"dp", 2, "shm"},
                    World{"dp", 4, "shm"}, World{"dp", 1, "nccl"}, World{"ddp", 1, "shm"},
                    World{"ddp", 2, "shm"}, World{"ddp", 2, "shm", "tf32"},
                    World{"ddp", 2, "shm", "bf16"}, World{"ddp", 4, "shm"}, World{"ddp", 1, "nccl"},
                    World{"ddp", 2, "nccl"}, World{"ps", 1, "shm"}, World{"ps", 2, "shm"},
                    World{"ps", 4, "shm"}),
    [](const auto& tested) {
      const World& world = tested.param;
      return fmt::format("{}_{}_{}_{}", world.strategy, world.gpus, world.backend, world.precision);
    });

// Each of its workers and servers is a process that shares the GPU.
class ServersOnGpus : public CudaProgram, public testing::WithParamInterface<const char*> {
 protected:
  json serve(std::vector<std::string> options) {
    options.insert(options.end(), {"--precision=fp32", "--oversubscribe", "--gpus=3", "--steps=8",
                                   std::string("--backend=") + GetParam()});
    json run = CudaProgram::run("ps", options);
    EXPECT_EQ(run.at("backend"), GetParam());
    EXPECT_EQ(run.at("devices").back().at("device").get<std::string>().substr(0, 5), "cuda:");
    EXPECT_EQ(run.at("verification").at("status"), "not_applicable");
    EXPECT_LT(run.at("verification").at("divergence"), 3);
    return run;
  }
};

TEST_P(ServersOnGpus, ApplyPushesAsTheyCome) {
  const json run =
      serve({"--servers=2", "--ps-mode=async", "--max-staleness=3", "--inject=slow:rank=1,ms=10"});
  EXPECT_EQ(run.at("pushes").at("updates"), 3 * 8);
  EXPECT_GT(run.at("pushes").at("staleness_max"), 0);
  EXPECT_LE(run.at("pushes").at("staleness_max"), (3 - 1) * (2 * 3 + 1));
}

TEST_P(ServersOnGpus, DropWhatALateWorkerPushes) {
  const json run = serve({"--backup-workers=1", "--inject=slow:rank=1,ms=30"});
  EXPECT_EQ(run.at("pushes").at("updates"), 8);
  EXPECT_GT(run.at("pushes").at("dropped"), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, ServersOnGpus, testing::Values("nccl", "shm"),
                         [](const auto& tested) { return tested.param; });

// Each unit is cast where it arrives, before its forward and before its backward.
TEST_F(CudaProgram, GathersUnitsOfWeightsThatAreComputedInSixteenBits) {
  for (const char* const precision : {"bf16", "fp16"}) {
    if (!has_precision(precision)) continue;
    const json run = CudaProgram::run("zero3", {std::string("--precision=") + precision,
                                                "--unit-mb=0.001", "--gpus=2", "--oversubscribe"});
    expect_trained_on_cuda(run);
    EXPECT_GT(run.at("devices").at(0).at("buckets").size(), 6);  // two units at least, thrice
  }
}

// Two runs must agree to the last digit, so no measurement may choose other kernels.
const std::vector<std::string> kSameBits = {"--precision=fp32", "--deterministic",
                                            "--oversubscribe"};

std::vector<std::string> with(std::vector<std::string> options,
                              const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

TEST_F(CudaProgram, GoesOnFromACheckpointWithItsScaledLoss) {
  const std::string precision = has_precision("fp16") ? "fp16" : "fp32";
  const std::vector<std::string> same = {"--precision=" + precision, "--gpus=2", "--deterministic",
                                         "--oversubscribe", "--optimizer=adam"};
  const json whole = run("ddp", with(same, {"--epochs=2"}));
  run("ddp", with(same, {"--epochs=1", "--checkpoint=c"}));
  const json resumed = run("ddp", with(same, {"--epochs=2", "--resume-training=c"}));
  for (const char* const of : {"train_loss", "test_accuracy"}) {
    EXPECT_EQ(resumed.at("epochs").back().at(of), whole.at("epochs").back().at(of)) << of;
  }
}

TEST_F(CudaProgram, ReplayedStepsTrainWhatQueuedStepsTrain) {
  for (const auto& [strategy, backend] : {std::pair{"single", "auto"}, {"ddp", "nccl"}}) {
    const auto same = with(kSameBits, {"--epochs=2", std::string("--backend=") + backend});
    const json queued = run(strategy, with(same, {"--cuda-graph=off"}));
    const json replayed = run(strategy, with(same, {"--cuda-graph=on"}));
    expect_trained_on_cuda(replayed);
    EXPECT_EQ(losses(queued), losses(replayed)) << strategy << " with " << backend;
  }
}

TEST_F(CudaProgram, OneReportHasBothTimesWithAndWithoutGraphs) {
  // Ranks that share the one GPU of a test pass data through host memory, which is not recorded.
  const auto result = program.run(test::small_run(
      on_stand_in() ? "single,dp,ddp" : "single,dp",
      {"--device=cuda", "--oversubscribe", "--cuda-graph=on,off", "--repetitions=2"}));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const json report = program.report();
  EXPECT_EQ(report.at("config").at("cuda_graph"), json({"on", "off"}));
  std::map<std::pair<std::string, std::string>, int> runs;  // strategy and graphs
  for (const json& run : report.at("runs")) {
    const json graph = run.at("strategy_options").value("cuda_graph", json());
    ++runs[{run.at("strategy"), graph.dump()}];
    EXPECT_GT(run.at("step").at("time_s").at("median"), 0);
  }
  std::map<std::pair<std::string, std::string>, int> expected = {
      {{"single", "true"}, 2}, {{"single", "false"}, 2}, {{"dp", "null"}, 2}};
  if (on_stand_in()) expected.insert({{{"ddp", "true"}, 2}, {{"ddp", "false"}, 2}});
  EXPECT_EQ(runs, expected);
  EXPECT_EQ(report.at("cells").size(), expected.size());
  EXPECT_THAT(result.out, HasSubstr("(CUDA graphs on)"));
  EXPECT_THAT(result.out, HasSubstr("(CUDA graphs off)"));
}

TEST_F(CudaProgram, DataOnTheDeviceIsTheSameData) {
  for (const char* strategy : {"single", "dp", "ddp"}) {
    const json host = run(strategy, with(kSameBits, {"--residency=host"}));
    const json device = run(strategy, with(kSameBits, {"--residency=device"}));
    expect_trained_on_cuda(device);
    EXPECT_EQ(losses(host), losses(device)) << strategy;
  }
}

TEST_F(CudaProgram, TrainsWhatTheCpuTrains) {
  const json cuda = run("ddp", {"--precision=fp32", "--oversubscribe"});
  const auto result = program.run(test::small_run("ddp", {"--device=cpu", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  const auto on_cpu = losses(report.at("runs").at(0)), on_cuda = losses(cuda);
  ASSERT_EQ(on_cpu.size(), on_cuda.size());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) EXPECT_NEAR(on_cpu[i], on_cuda[i], 1e-3) << i;
}

TEST_F(CudaProgram, RepeatsItsBitsWhenDeterministic) {
  for (const auto& [strategy, precision] : {std::pair{"single", "fp32"},
                                            {"single", "bf16"},
                                            {"dp", "fp32"},
                                            {"ddp", "fp32"},
                                            {"ps", "fp32"}}) {
    if (!has_precision(precision)) continue;
    std::vector<json> runs;
    std::vector<std::string> weights;
    for (const char* file : {"first.safetensors", "second.safetensors"}) {
      runs.push_back(run(strategy, {"--deterministic", "--oversubscribe", "--backend=shm",
                                    std::string("--precision=") + precision,
                                    std::string("--save-model=") + file}));
      weights.push_back(program.read(file));
    }
    expect_trained_on_cuda(runs[0]);
    EXPECT_EQ(losses(runs[0]), losses(runs[1])) << strategy << " in " << precision;
    EXPECT_GT(weights[0].size(), 1000u);
    EXPECT_TRUE(weights[0] == weights[1]) << strategy << " in " << precision;
  }
}

// Many maps are more than a GPU holds; of few large ones cuDNN would lack workspace for a gradient
// first. The first layer is one of ours: for one channel and a kernel of 1 x 1 cuDNN has no
// gradient that repeats its bits.
TEST_F(CudaProgram, RefusesWhatDoesNotFitBeforeItAllocates) {
  constexpr int kChannels = 64;
  const int layer_count = on_stand_in() ? 64 : 1000, batch = on_stand_in() ? 10 : 2000;
  program.environment["STAND_IN_MEMORY_BYTES"] = std::to_string(1 << 26);
  json layers = json::array();
  for (int i = 1; i <= layer_count; ++i) {
    layers.push_back({{"name", fmt::format("conv{}", i)},
                      {"type", "conv2d"},
                      {"out_channels", kChannels},
                      {"kernel", i == 1 ? 3 : 1}});
  }
  layers.push_back({{"name", "fc"}, {"type", "linear"}, {"out_features", 10}});
  program.write("tiny.json",
                json{{"name", "deep"}, {"input", {1, 28, 28}}, {"layers", layers}}.dump());
  json config = json::parse(program.read("lenet.json"));
  config["model"] = "tiny.json";
  program.write("lenet.json", config.dump());

  const auto result =
      program.run(test::small_run("single", {"--device=cuda", "--verify-steps=0", "--deterministic",
                                             fmt::format("--batch-size={}", batch)}));
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  const json report = program.report();
  const json& run = report.at("runs").at(0);
  EXPECT_EQ(run.at("error").at("kind"), "config") << run;
  const std::string message = run.at("error").at("message");
  for (const char* text : {"single on 1 device with a batch of ", " per device needs ",
                           " more bytes of cuda:0, which has ", " free; use a smaller --batch-size",
                           "\n  weights  ", "\n  activations  ", "\n  sum  "}) {
    EXPECT_THAT(message, HasSubstr(text));
    EXPECT_THAT(result.err, HasSubstr(text));
  }
}

// The real data set, in DDPBENCH_TEST_DATA_DIR or beside the checkout.
std::string data_directory() {
  const char* const given = ::getenv("DDPBENCH_TEST_DATA_DIR");
  return std::filesystem::absolute(given != nullptr && *given != 0 ? given
                                                                   : DDPBENCH_TEST_DATA_DIRECTORY);
}

TEST_F(CudaProgram, LearnsMnistInFiveEpochs) {
  if (on_stand_in()) GTEST_SKIP() << "needs a GPU: plain loops would take hours";
  const std::string data = data_directory();
  if (!std::filesystem::is_directory(data + "/mnist")) {
    GTEST_SKIP() << "needs MNIST's files: there is no " << data
                 << "/mnist, which DDPBENCH_TEST_DATA_DIR may name";
  }
  // Synthetic digits are not accepted.
  program.write("mnist.json", R"({"model": "simple_cnn", "lr": 0.01, "momentum": 0.9,
    "dataset": {"name": "mnist", "on_missing": "error"}})");
  for (const char* precision : {"fp32", "tf32", "bf16"}) {
    if (!has_precision(precision)) continue;
    const auto result =
        program.run({"--config=mnist.json", "--device=cuda", "--data-dir=" + data, "--epochs=5",
                     "--json=report.json", "--force", std::string("--precision=") + precision});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    const json report = program.report();
    const json& run = report.at("runs").at(0);
    expect_trained_on_cuda(run);
    ASSERT_EQ(run.at("epochs").size(), 5u);
    EXPECT_GT(run.at("epochs").at(4).at("test_accuracy"), 0.985) << precision;
  }
}

}  // namespace
}  // namespace ddpbench
