// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/cuda_program.h"

#include <stdlib.h>

namespace ddpbench::test {
namespace {

// All ranks share this GPU.
[[maybe_unused]] std::string first_gpu() {
  const char* const visible = ::getenv("CUDA_VISIBLE_DEVICES");
  const std::string all = visible == nullptr ? "0" : visible;
  return all.substr(0, all.find(','));
}

void show_gpus(Program& program) {
#ifdef DDPBENCH_ON_STAND_IN
  program.environment["STAND_IN_GPUS"] = "2";
#else
  program.environment["CUDA_VISIBLE_DEVICES"] = first_gpu();
#endif
}

}  // namespace

bool CudaProgram::on_stand_in() {
#ifdef DDPBENCH_ON_STAND_IN
  return true;
#else
  return false;
#endif
}

std::string CudaProgram::why_not(const std::string& precision) {
  const auto result = program.run({"--strategy=single", "--device=cuda", "--dry-run",
                                   "--config=lenet.json", "--precision=" + precision});
  return result.exit_code == 0 ? "" : result.err.substr(0, result.err.find('\n'));
}

bool CudaProgram::has_precision(const std::string& precision) {
  return on_stand_in() || why_not(precision).empty();
}

CudaProgram::CudaProgram() {
  show_gpus(program);
  write_small_configuration(program);
}

void write_small_configuration(Program& program) {
  // So small that plain loops can evaluate it on 10,000 digits. In fp32 its channels are a whole
  // vector, so that the pool adds the bias and its gradient is ready before the weight's.
  program.write("tiny.json", R"({"name": "tiny", "input": [1, 28, 28], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 5, "stride": 4},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "max_pool2d", "kernel": 2},
    {"name": "fc1", "type": "linear", "out_features": 16},
    {"name": "relu2", "type": "relu"},
    {"name": "fc2", "type": "linear", "out_features": 10}]})");
  nlohmann::json config = nlohmann::json::parse(small_config({.steps = 12}));
  config["model"] = CudaProgram::on_stand_in() ? "tiny.json" : "simple_cnn";
  config["lr"] = CudaProgram::on_stand_in() ? 0.05 : 0.01;
  program.write("lenet.json", config.dump());
}

void CudaProgram::SetUp() {
  if (on_stand_in()) return;
  const std::string reason = why_not("fp32");
  if (!reason.empty()) GTEST_SKIP() << "needs a GPU: " << reason;
}

nlohmann::json CudaProgram::run(const std::string& strategy, std::vector<std::string> more) {
  more.emplace_back("--device=cuda");
  more.emplace_back("--force");
  const auto result = program.run(small_run(strategy, more));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const nlohmann::json report = program.report();
  return report.at("runs").at(0);
}

void expect_trained_on_cuda(const nlohmann::json& run) {
  EXPECT_EQ(run.at("status"), "ok") << run;
  EXPECT_EQ(run.at("device"), "cuda");
#ifdef DDPBENCH_ON_STAND_IN
  EXPECT_EQ(run.at("device_model"), "The host");
#endif
  EXPECT_EQ(run.at("verification").at("status"),
            run.at("strategy") == "single" ? "reference" : "passed")
      << run.at("verification");
  EXPECT_GT(run.at("step").at("count"), 0);
  for (const nlohmann::json& time : run.at("step").at("samples_s")) EXPECT_GT(time, 0);
  EXPECT_GT(run.at("phases").at("forward_s"), 0);
}

std::vector<double> losses(const nlohmann::json& run) {
  std::vector<double> all;
  for (const nlohmann::json& epoch : run.at("epochs")) {
    all.push_back(epoch.at("train_loss"));
    all.push_back(epoch.at("test_accuracy"));
  }
  return all;
}

}  // namespace ddpbench::test
