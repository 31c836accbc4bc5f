// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench comm --device=cuda` on the stand-in for NVIDIA's libraries (program_test.cpp): ranks as
// processes and threads, their connections, and their report.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/bench/engine_program.h"
#include "tests/bench/world_ranks.h"
#include "tests/cuda/cuda_program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class CudaComm : public testing::Test {
 protected:
  CudaComm() { program.environment["STAND_IN_GPUS"] = "2"; }

  test::ProgramResult measure(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"comm", "--device=cuda", "--json=report.json", "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto add = [&arguments](const std::string& option, const char* value) {
      const auto is_it = [&](const std::string& word) { return word.starts_with(option); };
      if (std::ranges::none_of(arguments, is_it)) arguments.push_back(option + value);
    };
    add("--sizes=", "4K");
    add("--iterations=", "3");
    add("--warmup=", "1");
    return program.run(arguments);
  }

  json rows(const std::vector<std::string>& more) {
    const test::ProgramResult result = measure(more);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return program.report()["collectives"];
  }

  test::Program program;
};

class CudaCommModes : public CudaComm, public testing::WithParamInterface<const char*> {};

TEST_P(CudaCommModes, MeasuresAndVerifiesEveryCollective) {
  const std::string mode = std::string("--mode=") + GetParam();
  const json all = rows({"--op=all", "--backend=shm", "--oversubscribe", mode});
  ASSERT_EQ(all.size(), 9u);
  for (const json& row : all) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["iterations"], 3) << row;
    EXPECT_GT(row["time_s"]["median"], 0) << row;
    EXPECT_EQ(row["mode"], GetParam());
    EXPECT_EQ(row["device"], "cuda");
    EXPECT_EQ(row["device_model"], "The host");
    EXPECT_EQ(row["gpus"], json({0, 1}));
    EXPECT_EQ(row["backend"], "shm");
    EXPECT_FALSE(row["oversubscribed"]);
  }
}

TEST_P(CudaCommModes, SharesAGpuWhenAskedTo) {
  program.environment["STAND_IN_GPUS"] = "1";
  const std::string mode = std::string("--mode=") + GetParam();
  const json all = rows({"--op=all_reduce,all_gather", "--sizes=1M", "--oversubscribe", mode});
  ASSERT_EQ(all.size(), 2u);
  for (const json& row : all) {
    EXPECT_TRUE(row["oversubscribed"]);
    EXPECT_EQ(row["backend"], "shm");  // auto: NCCL refuses ranks that share a GPU
    EXPECT_EQ(row["gpus"], json({0, 0}));
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_TRUE(row["bound"].is_null());
  }
  const test::ProgramResult shown = program.run({"show", "report.json"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("on The host"), HasSubstr("more ranks than GPUs")));
}

INSTANTIATE_TEST_SUITE_P(, CudaCommModes, testing::Values("process", "thread"),
                         [](const auto& p) { return std::string(p.param); });

class CudaCommMemory : public CudaComm, public testing::WithParamInterface<const char*> {};

// The copies that keep the device busy count, too: 64 MiB a rank.
TEST_P(CudaCommMemory, IsCheckedForAllRanksOfAGpuBeforeTheyAllocate) {
  program.environment["STAND_IN_GPUS"] = "1";
  program.environment["STAND_IN_MEMORY_BYTES"] = std::to_string(100'000'000);
  const std::string mode = std::string("--mode=") + GetParam();
  const test::ProgramResult result = measure({"--sizes=4K,1M", "--oversubscribe", mode});
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("2 ranks of 1048576 bytes"), HasSubstr(" free; use "),
                                HasSubstr("use smaller --sizes"), HasSubstr("\n  workspace ")));
  const json report = program.report();
  EXPECT_EQ(report["error"]["kind"], "config");
  EXPECT_TRUE(report["collectives"][0]["time_s"].is_null());
}

INSTANTIATE_TEST_SUITE_P(, CudaCommMemory, testing::Values("process", "thread"),
                         [](const auto& p) { return std::string(p.param); });

TEST_F(CudaComm, TakesNcclForRanksWithGpusOfTheirOwn) {
  for (const char* mode : {"--mode=process", "--mode=thread"}) {
    const json all = rows({mode, "--gpus=all"});
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0]["backend"], "nccl");
    EXPECT_EQ(all[0]["ranks"], 2);
    EXPECT_EQ(all[0]["wrong"], 0);
    EXPECT_THAT(all[0]["share_of_bound_reason"], HasSubstr("several GPUs"));
  }
  EXPECT_EQ(program.report()["environment"]["gpus"].size(), 2u);
}

TEST_F(CudaComm, SaysInTheConfigWhichBackendAllWorldsHave) {
  rows({});
  EXPECT_EQ(program.report()["config"]["backend"], "nccl");
  rows({"--ranks=3", "--oversubscribe"});
  EXPECT_EQ(program.report()["config"]["backend"], "shm");
  const json all = rows({"--ranks=2,3", "--oversubscribe"});
  EXPECT_EQ(program.report()["config"]["backend"], "auto");
  EXPECT_EQ(all[0]["backend"], "nccl");
  EXPECT_EQ(all[1]["backend"], "shm");
}

TEST_F(CudaComm, LetsProcessesShareAGpuThroughNccl) {
  const json all = rows({"--backend=nccl", "--ranks=3", "--oversubscribe"});
  EXPECT_EQ(all[0]["backend"], "nccl");
  EXPECT_EQ(all[0]["wrong"], 0);
  EXPECT_TRUE(all[0]["oversubscribed"]);
}

TEST_F(CudaComm, RanksOfALauncherTakeAGpuEach) {
  for (const std::string backend : {"auto", "shm", "nccl", "gloo"}) {
    if (backend == "gloo" && !test::has_module("libddpbench_gloo.so")) continue;
    const auto results =
        program.run_together({"comm", "--device=cuda", "--json=report.json", "--force", "--op=all",
                              "--sizes=4K", "--iterations=3", "--warmup=1", "--backend=" + backend},
                             test::world(2, test::free_port()));
    for (const test::ProgramResult& rank : results) EXPECT_EQ(rank.exit_code, 0) << rank.err;
    const json report = program.report();
    EXPECT_EQ(report["environment"]["gpus"].size(), 2u) << backend;
    ASSERT_EQ(report["collectives"].size(), 9u) << backend;
    for (const json& row : report["collectives"]) {
      EXPECT_EQ(row["wrong"], 0) << row;
      EXPECT_EQ(row["gpus"], json({0, 1})) << row;
      EXPECT_EQ(row["backend"], backend == "auto" ? "nccl" : backend) << row;
    }
  }
}

TEST_F(CudaComm, RanksOfALauncherShareAGpuWhenAskedTo) {
  program.environment["STAND_IN_GPUS"] = "1";
  const std::vector<std::string> arguments{"comm",         "--device=cuda",  "--json=report.json",
                                           "--sizes=1M",   "--iterations=3", "--warmup=1",
                                           "--backend=shm"};
  const auto refused = program.run_together(arguments, test::world(2, test::free_port()));
  EXPECT_EQ(refused[0].exit_code, 3) << refused[0].err;
  std::vector<std::string> shared = arguments;
  shared.emplace_back("--oversubscribe");
  for (const auto& rank : program.run_together(shared, test::world(2, test::free_port()))) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
  }
  const json row = program.report()["collectives"][0];
  EXPECT_EQ(row["gpus"], json({0, 0}));
  EXPECT_TRUE(row["oversubscribed"]);
  EXPECT_EQ(row["wrong"], 0);
}

TEST_F(CudaComm, ReducesEveryTypeExactly) {
  for (const char* type : {"fp64", "bf16", "uint8"}) {
    for (const json& row : rows({"--op=all_reduce,reduce_scatter", "--sizes=20000",
                                 std::string("--type=") + type, "--redop=average"})) {
      EXPECT_EQ(row["wrong"], 0) << row;
    }
  }
}

// The pattern passes through staging memory in several pieces.
TEST_F(CudaComm, VerifiesMoreThanItsStagingMemoryHolds) {
  const json all = rows({"--sizes=40M", "--iterations=1", "--warmup=0"});
  EXPECT_EQ(all[0]["wrong"], 0);
}

TEST_F(CudaComm, FindsWrongResults) {
  program.environment["STAND_IN_WRONG_RANK"] = "1";
  const test::ProgramResult result = measure({"--mode=process"});
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  // One element of rank 1's result, before and after the timed iterations.
  EXPECT_EQ(program.report()["collectives"][0]["wrong"], 2);
  EXPECT_EQ(program.report()["error"]["kind"], "verification");
}

TEST_F(CudaComm, RefusesWhatIsNotHere) {
  test::ProgramResult result = measure({"--ranks=3"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--ranks=3: there are 2 GPUs here"),
                                HasSubstr("--oversubscribe"), testing::Not(HasSubstr("launcher"))));
  result = measure({"--ranks=3", "--mode=thread", "--backend=nccl", "--oversubscribe"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("use --backend=shm"));
  program.environment["STAND_IN_GPUS"] = "1";
  result = measure({"--ranks=2"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("--oversubscribe lets ranks share it, --device=cpu"));
  EXPECT_EQ(measure({"--ranks=all"}).exit_code, 2) << "a collective has two ranks";
  program.environment["STAND_IN_GPUS"] = "0";
  EXPECT_EQ(measure({}).exit_code, 3);
  EXPECT_EQ(program.read("report.json"), "");
}

// An error says what a launcher must do only where one started the ranks.
using test::CudaProgram;
TEST_F(CudaProgram, NamesNoLauncherWhereThereIsNone) {
  const auto refused = program.run(test::small_run("ddp", {"--device=cuda", "--gpus=3"}));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("use fewer, or --oversubscribe"),
                                 testing::Not(HasSubstr("launcher"))));
}

TEST_F(CudaComm, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(measure({"--backend=rings"}).exit_code, 2);
  EXPECT_EQ(measure({"--backend=mpi"}).exit_code, 3);  // mpirun starts its ranks
  EXPECT_EQ(program.run({"comm", "--device=gpu"}).exit_code, 2);
}

}  // namespace
}  // namespace ddpbench
