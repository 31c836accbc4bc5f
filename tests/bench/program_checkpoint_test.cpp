// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// --checkpoint and --resume-training, end to end.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "kernels/nn/safetensors.h"
#include "tests/bench/normalized_network.h"
#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using ::testing::HasSubstr;

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() { program.write("lenet.json", test::small_config({.verify_steps = 0})); }

  test::ProgramResult run(const std::string& strategy, std::vector<std::string> more) {
    more.insert(more.end(), {"--force", "--optimizer=adam", "--lr=0.001", "--lr-schedule=cosine",
                             "--lr-cosine-steps=12"});
    return program.run(small_run(strategy, more));
  }
  // Two epochs of six steps, in which rank 0 is killed in the tenth. Returns how many were saved:
  // 8, or 4 where the file was not whole yet.
  int interrupt(const std::string& strategy, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--epochs=2", "--checkpoint=c", "--checkpoint-every=4",
                             "--inject=kill:rank=0,step=10"});
    EXPECT_EQ(run(strategy, more).exit_code, 4);
    const int steps = std::stoi(nn::read_metadata(program.path("c")).at("steps"));
    EXPECT_TRUE(steps == 4 || steps == 8) << steps;
    return steps;
  }
  json run_report() const { return program.report()["runs"][0]; }

  Program program;
};

TEST_F(Checkpoint, GoesOnBitForBitAfterARankWasKilled) {
  for (const char* strategy : {"dp", "ps"}) {
    ASSERT_EQ(run(strategy, {"--epochs=2", "--save-model=whole"}).exit_code, 0) << strategy;
    const json whole = run_report();
    const int steps = interrupt(strategy);
    const auto resumed = run(
        strategy, {"--epochs=2", "--resume-training=c", "--checkpoint=c", "--save-model=resumed"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(program.read("whole"), program.read("resumed")) << strategy;
    const json run = run_report();
    EXPECT_EQ(
        run["resumed"],
        json({{"file", "c"}, {"step", steps}, {"epoch", steps / 6}, {"step_of_epoch", steps % 6}}));
    EXPECT_EQ(run["step"]["count"], 12 - steps);
    const json& last = run["epochs"].back();
    EXPECT_EQ(run["epochs"][0]["epoch"], steps / 6);
    EXPECT_EQ(run["epochs"][0]["samples"], (6 - steps % 6) * whole["global_batch_size"].get<int>());
    EXPECT_EQ(last["test_accuracy"], whole["epochs"][1]["test_accuracy"]);
    EXPECT_EQ(run["checkpoints"].back()["step"], 12);
    EXPECT_GT(run["checkpoints"].back()["bytes"], 3 * 44426 * 4);
    EXPECT_GT(run["time"]["save_s"], 0);
    EXPECT_GT(run["time"]["load_s"], 0);
    EXPECT_THAT(resumed.out, testing::Not(HasSubstr("its learning rate was")));
  }
}

TEST_F(Checkpoint, GoesOnWithFewerDevicesAndTheSameGlobalBatch) {
  const int steps = interrupt("ddp", {"--gpus=3", "--batch-size=4"});
  const auto refused = run("ddp", {"--epochs=2", "--resume-training=c", "--batch-size=4"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the global batch was 12, and is 8 now; give "
                                     "--global-batch-size=12"));
  const auto uneven =
      run("ddp", {"--epochs=2", "--resume-training=c", "--gpus=5", "--global-batch-size=12"});
  EXPECT_EQ(uneven.exit_code, 2);
  EXPECT_THAT(uneven.err, HasSubstr("size that can is 15."));
  const auto resumed = run(
      "ddp", {"--epochs=2", "--resume-training=c", "--global-batch-size=12", "--verify-steps=2"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(run_report()["verification"]["status"], "passed");
  EXPECT_EQ(run_report()["step"]["count"], 12 - steps);
}

TEST_F(Checkpoint, IsOfServersThatServeOneByOneToo) {
  const auto saved = run("ps", {"--ps-mode=async", "--checkpoint=c", "--checkpoint-every=4"});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  EXPECT_EQ(run_report()["checkpoints"].size(), 2u);
  const auto resumed = run("ps", {"--ps-mode=async", "--epochs=2", "--resume-training=c"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(run_report()["step"]["count"], 6);
}

TEST_F(Checkpoint, SaysThatTheLearningRateIsAnother) {
  ASSERT_EQ(run("single", {"--epochs=1", "--checkpoint=c"}).exit_code, 0);
  EXPECT_EQ(nn::read_metadata(program.path("c")).at("lr_schedule"),
            "lr=0.001, lr_cosine_steps=12, lr_min=0, lr_schedule=cosine");
  const auto resumed = program.run(
      small_run("single", {"--epochs=2", "--resume-training=c", "--force", "--optimizer=adam",
                           "--lr=0.001", "--lr-schedule=step", "--lr-step-size=6"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out + resumed.err,
              HasSubstr("in epoch 2; its learning rate was lr=0.001, lr_cosine_steps=12, lr_min=0, "
                        "lr_schedule=cosine, and is lr=0.001, lr_gamma=0.1, lr_step_size=6, "
                        "lr_schedule=step now"));
}

TEST_F(Checkpoint, OfEachRunOfAConfigurationHasAFileOfItsOwn) {
  json config = json::parse(test::small_config({.verify_steps = 0}));
  config["runs"] = {{{"strategy", "single"}, {"checkpoint", "one"}},
                    {{"strategy", "ddp"}, {"gpus", 2}, {"checkpoint", "two"}}};
  program.write("lenet.json", config.dump());
  const std::vector<std::string> arguments = {"--config=lenet.json", "--json=report.json"};
  const auto made = program.run(arguments);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(nn::read_metadata(program.path("two")).at("strategy"), "ddp on 2 devices");
  for (const json& run : program.report()["runs"]) EXPECT_GT(run["time"]["save_s"], 0);
  program.write("report.json", "");
  config["runs"][1]["checkpoint"] = "one";
  program.write("lenet.json", config.dump());
  EXPECT_THAT(program.run(arguments).err, HasSubstr("--checkpoint=one: this command makes 2 runs"));
  config["runs"][1]["checkpoint"] = "report.json";
  program.write("lenet.json", config.dump());
  EXPECT_THAT(program.run(arguments).err, HasSubstr("both name report.json"));
}

// Whoever has the lock of the file that is written keeps its writer waiting, as a slow disk does.
TEST_F(Checkpoint, MayTakeLongerThanAnyOtherWait) {
  FileDescriptor part(::open(program.path("c.part").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  ASSERT_EQ(::flock(part.get(), LOCK_EX), 0);
  const auto writes = [] {
    std::ifstream locks("/proc/locks");
    const std::string text(std::istreambuf_iterator<char>(locks), {});
    return text.find("-> FLOCK") != text.npos;
  };
  const auto result = program.run(
      small_run("ddp", {"--checkpoint=c", "--checkpoint-every=2", "--timeout=1"}), [&](int) {
        EXPECT_TRUE(Program::wait_until(writes));
        std::this_thread::sleep_for(std::chrono::milliseconds(2300));  // ranks have 1 s to speak
        part.reset();
      });
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(run_report()["checkpoints"].size(), 3u);
  EXPECT_GT(run_report()["time"]["save_s"], 2);
}

TEST_F(Checkpoint, IsEvaluatedWithNoEpoch) {
  ASSERT_EQ(run("ddp", {"--epochs=2", "--checkpoint=c"}).exit_code, 0);
  const json trained = run_report();
  ASSERT_EQ(trained["checkpoints"].size(), 2u);  // an epoch each
  EXPECT_EQ(
      run("single", {"--epochs=0", "--resume-training=c", "--global-batch-size=16"}).exit_code, 0);
  EXPECT_EQ(run_report()["evaluation"]["accuracy"], trained["epochs"][1]["test_accuracy"]);
}

TEST_F(Checkpoint, RefusesWhatItCannotGoOnFrom) {
  ASSERT_EQ(run("single", {"--epochs=1", "--checkpoint=c", "--save-model=m"}).exit_code, 0);
  program.write("cut", program.read("c").substr(0, 100'000));
  program.write("model.pth", std::string("PK\3\4 and more of it"));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--resume-training=c"}, "trained for 1 epoch, and --epochs=1 is for all"},
      {{"--resume-training=none"}, "safetensors file none: no such file"},
      {{"--resume-training=cut"}, "bytes of data, found"},
      {{"--resume-training=model.pth"}, "safetensors.torch.save_file(torch.load("},
      {{"--resume-training=m"}, "--load-model starts from them"},
      {{"--resume-training=c", "--optimizer=sgd"},
       "the optimizer was adam, and is sgd with momentum"},
      {{"--resume-training=c", "--batch-size=5"}, "the global batch was 8, and is 5 now"},
      {{"--resume-training=c", "--seed=3"}, "the seed was 1, and is 3 now; give --seed=1"},
      {{"--resume-training=c", "--load-model=m"}, "both set the weights"},
      {{"--checkpoint=c2", "--gpus=1,2", "--strategy=ddp"}, "this command makes 2 runs"},
      {{"--checkpoint=c2", "--repetitions=2"}, "this command makes 2 runs"},
      {{"--checkpoint=none/c"}, "none/c"},
      {{"--checkpoint=c"}, "--force"},
      {{"--checkpoint=c2", "--checkpoint-every=0"}, "expected epoch, or a number of steps from 1"},
      {{"--checkpoint-every=5"}, "it is for --checkpoint"},
      {{"--checkpoint=c2", "--epochs=0"}, "--epochs=0 takes no steps"}};
  for (const auto& [more, why] : cases) {
    std::vector<std::string> arguments = {"--config=lenet.json", "--json=other.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    for (const std::string other : {"--strategy=single", "--optimizer=adam"}) {
      const std::string option = other.substr(0, other.find('=') + 1);
      const auto gives = [&](const std::string& word) { return word.starts_with(option); };
      if (std::ranges::none_of(more, gives)) arguments.push_back(other);
    }
    const auto result = program.run(arguments);
    EXPECT_EQ(result.exit_code, 2) << why;
    EXPECT_THAT(result.err, HasSubstr(why));
  }
  test::use_normalized_network(program, 6);
  const auto other = run("single", {"--epochs=2", "--resume-training=c"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("the network was lenet5"));
}

}  // namespace
}  // namespace ddpbench
