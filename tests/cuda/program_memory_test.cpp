// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The messages of runs on GPUs with too little memory. On the stand-in (see program_test.cpp).
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <sstream>

#include "tests/cuda/cuda_program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// The table in a message: bytes by category.
std::map<std::string, std::size_t> table_of(const std::string& message) {
  std::map<std::string, std::size_t> table;
  std::istringstream lines(message.substr(message.find('\n')));
  std::string name;
  for (std::size_t bytes = 0; lines >> name >> bytes;) table[name] = bytes;
  return table;
}

struct MemoryCase {
  const char* name;
  std::vector<std::string> arguments;
  int rank = 0;  // whose device needs most
};
void PrintTo(const MemoryCase& c, std::ostream* out) { *out << c.name; }

using test::CudaProgram;

class PlannedMemory : public CudaProgram, public testing::WithParamInterface<MemoryCase> {
 protected:
  // Each device has its own GPU, so that the device of `rank` reports the error.
  PlannedMemory() { program.environment["STAND_IN_GPUS"] = "5"; }
  bool is_of_server() const { return GetParam().rank > 0; }
  // Runs the program with the arguments of `more` added.
  test::ProgramResult run_with(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = GetParam().arguments;
    const std::string strategy = arguments[0];
    arguments.erase(arguments.begin());
    arguments.insert(arguments.end(), {"--device=cuda", "--verify-steps=0", "--force"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program.run(test::small_run(strategy, arguments));
  }
  // The table of what the device allocated.
  std::map<std::string, std::size_t> allocated() {
    std::map<std::string, std::size_t> table;
    const json report = program.report();
    for (const json& device : report.at("runs").at(0).at("devices")) {
      if (device.at("rank") != GetParam().rank) continue;
      for (const auto& [name, bytes] : device.at("memory").at("by_category_bytes").items()) {
        if (bytes > 0) table[name] = bytes;
        table["sum"] += bytes.get<std::size_t>();
      }
    }
    return table;
  }
};

// For every strategy and role, the plan has the bytes of each category that a run with room
// allocates: none is forgotten or counted twice.
TEST_P(PlannedMemory, IsWhatTheRunAllocates) {
  if (is_of_server()) {
    // Its parameters outweigh the batches. Evaluating so many takes too long: the run ends before.
    program.write("tiny.json", R"({"name": "wide", "input": [1, 28, 28], "layers": [
      {"name": "fc1", "type": "linear", "out_features": 2000},
      {"name": "fc2", "type": "linear", "out_features": 10}]})");
    run_with({"--inject=throw:rank=0,step=1"});
  } else {
    const auto result = run_with({});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  const auto expected = allocated();
  ASSERT_TRUE(expected.contains("sum"));

  program.environment["STAND_IN_MEMORY_BYTES"] = std::to_string(expected.at("sum") - 1);
  const auto refused = run_with({});
  EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
  const json report = program.report();
  const json& error = report.at("runs").at(0).at("error");
  EXPECT_EQ(error.at("kind"), "config");
  EXPECT_EQ(table_of(error.at("message")), expected) << error.at("message");
}

INSTANTIATE_TEST_SUITE_P(
    Runs, PlannedMemory,
    testing::Values(
        MemoryCase{"single", {"single"}}, MemoryCase{"resident", {"single", "--residency=device"}},
        MemoryCase{"plain_sgd", {"single", "--momentum=0", "--precision=bf16"}},
        MemoryCase{"adam", {"single", "--optimizer=adam"}},
        MemoryCase{"server_of_ps_with_adam", {"ps", "--optimizer=adamw"}, 2},
        MemoryCase{"without_loader_workers", {"single", "--loader-workers=0"}},
        MemoryCase{"primary_of_dp", {"dp"}},
        // Its loss of the global batch takes several blocks, and so more workspace than its own.
        MemoryCase{"primary_of_dp_with_many_rows", {"dp", "--batch-size=200"}},
        MemoryCase{"ddp", {"ddp"}}, MemoryCase{"ddp_over_shm", {"ddp", "--backend=shm"}},
        MemoryCase{"worker_of_ps", {"ps"}},
        MemoryCase{"worker_of_ps_that_updates", {"ps", "--ps-update=worker"}},
        MemoryCase{"server_of_ps", {"ps"}, 2},
        MemoryCase{"server_of_ps_that_only_averages", {"ps", "--ps-update=worker", "--gpus=4"}, 4}),
    [](const auto& test) { return test.param.name; });

// Devices that share a GPU with room for each of them, but not for all.
class SharedMemory : public CudaProgram, public testing::WithParamInterface<const char*> {
 protected:
  SharedMemory() { program.environment["STAND_IN_GPUS"] = "1"; }
  test::ProgramResult run_with_memory(std::size_t bytes) {
    program.environment["STAND_IN_MEMORY_BYTES"] = std::to_string(bytes);
    return program.run(
        test::small_run(GetParam(), {"--device=cuda", "--gpus=2", "--backend=shm",
                                     "--oversubscribe", "--verify-steps=0", "--force"}));
  }
};

TEST_P(SharedMemory, IsCheckedForAllDevicesTogether) {
  const auto fits = run_with_memory(std::size_t{1} << 30);
  ASSERT_EQ(fits.exit_code, 0) << fits.out << fits.err;
  std::size_t most = 0, devices = 0;
  const json report = program.report();
  for (const json& device : report.at("runs").at(0).at("devices")) {
    std::size_t sum = 0;
    for (const auto& [name, bytes] : device.at("memory").at("by_category_bytes").items()) {
      sum += bytes.get<std::size_t>();
    }
    most = std::max(most, sum);
    ++devices;
  }
  // The stand-in takes this much for each process.
  constexpr std::size_t kOfLibraries = 1 << 16;
  const auto refused = run_with_memory(most + kOfLibraries);
  EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
  EXPECT_THAT(refused.err, HasSubstr(devices == 2 ? ", and 1 other device of the run "
                                                  : ", and 2 other devices of the run "));
  EXPECT_THAT(refused.err, HasSubstr(" bytes of the same memory, which has "));
  EXPECT_THAT(refused.err, HasSubstr(", or fewer devices (--gpus)\n  weights  "));
}

INSTANTIATE_TEST_SUITE_P(Strategies, SharedMemory, testing::Values("dp", "ddp", "ps"),
                         [](const auto& test) { return std::string(test.param); });

// The choice of algorithms needs memory, too, when it is not on disk yet, but less than the run. A
// run without memory still reports the table.
TEST_F(CudaProgram, PlansWithAColdCacheOnAGpuWithoutMemory) {
  const auto run_on = [&](const std::string& bytes, const std::string& home) {
    program.environment["STAND_IN_MEMORY_BYTES"] = bytes;
    program.environment["HOME"] = program.path(home);
    return program.run(
        test::small_run("single", {"--device=cuda", "--gpus=1", "--verify-steps=0", "--force"}));
  };
  const auto warm_up = run_on("1000000000", "warm");
  ASSERT_EQ(warm_up.exit_code, 0) << warm_up.out << warm_up.err;
  std::string messages[2];
  for (const std::string home : {"warm", "cold"}) {
    const auto refused = run_on("4096", home);
    EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
    const json report = program.report();
    messages[home == "cold"] = report.at("runs").at(0).at("error").at("message");
  }
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_TRUE(table_of(messages[1]).contains("weights")) << messages[1];
}

TEST_F(CudaProgram, NamesTheUnitThatNoDeviceHolds) {
  program.environment["STAND_IN_MEMORY_BYTES"] = std::to_string(20 << 20);
  program.write("tiny.json", R"({"name": "wide", "input": [1, 28, 28], "layers": [
    {"name": "fc1", "type": "linear", "out_features": 8000},
    {"name": "fc2", "type": "linear", "out_features": 10}]})");
  const auto result = program.run(
      test::small_run("zero3", {"--device=cuda", "--precision=fp32", "--verify-steps=0"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("the unit that begins with fc1.weight has 251"));
  EXPECT_THAT(result.err, HasSubstr(" free; use a smaller --unit-mb\n"));
}

TEST_F(CudaProgram, SaysWhatToChangeWhenMemoryIsShort) {
  std::filesystem::remove_all(program.path(".cache"));  // all digits do not fit
  program.environment["STAND_IN_MEMORY_BYTES"] = std::to_string(20 << 20);
  const auto result =
      program.run(test::small_run("single", {"--device=cuda", "--residency=device", "--gpus=1"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("single on 1 device with a batch of 8 per device needs "));
  EXPECT_THAT(result.err, HasSubstr(" more bytes of cuda:0, which has 20971520 free; use a smaller "
                                    "--batch-size, or --residency=host, or --precision=bf16\n"));
  EXPECT_THAT(result.err, HasSubstr("\n  weights  "));
  EXPECT_THAT(result.err, HasSubstr("\n  input  "));
}

}  // namespace
}  // namespace ddpbench
