// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the program over engines that are other projects' libraries, each in a module. They are
// skipped where the program beside DDPBENCH_BINARY has no such module, or where mpirun is not here.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/program.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench::test {

inline bool has_module(const char* name) {
  const auto folder = std::filesystem::path(DDPBENCH_BINARY).parent_path().parent_path();
  return std::filesystem::exists(folder / "lib/ddpbench" / name);
}

class OverGloo : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_module("libddpbench_gloo.so")) GTEST_SKIP() << "built without the Gloo module";
    program.write("lenet.json", small_config({.steps = 4, .timeout_s = 30}));
  }
  Program program;
};

// For more ranks than cores, also as root.
inline std::map<std::string, std::string> mpirun_environment(const Program& program) {
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
          {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},  // Open MPI 5
          {"MASTER_PORT", std::to_string(free_port())},
          // Open MPI leaves memory behind, much of it in modules that it unloads.
          {"ASAN_OPTIONS", "detect_leaks=0"},
          {"TMPDIR", program.directory()}};
}

class OverMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_module("libddpbench_mpi.so")) GTEST_SKIP() << "built without the MPI module";
    std::istringstream path(::getenv("PATH") ? ::getenv("PATH") : "");
    for (std::string folder; std::getline(path, folder, ':');) {
      if (::access((folder + "/mpirun").c_str(), X_OK) != 0) continue;
      // Open MPI takes what is above its folder for its prefix, and refuses "/", which is that of a
      // /bin that leads to /usr/bin.
      mpirun_ = std::filesystem::canonical(folder) / "mpirun";
      break;
    }
    if (mpirun_.empty()) GTEST_SKIP() << "there is no mpirun in PATH";
    program.environment = mpirun_environment(program);
    program.write("lenet.json", small_config({.steps = 4, .timeout_s = 30}));
  }
  // `act` is called when mpirun has been started.
  ProgramResult run(
      int ranks, const std::vector<std::string>& arguments,
      const std::function<void()>& act = [] {}) {
    // mpirun of Open MPI 4.1 now and then locks up in its own end when several ranks fail.
    program.executable = "/usr/bin/timeout";
    std::vector<std::string> all{"--signal=KILL",       "60",           mpirun_, "-n",
                                 std::to_string(ranks), DDPBENCH_BINARY};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return program.run(all, [&](int) { act(); });
  }
  // The report of a failed run names this rank, and nothing is left.
  void expect_blame(int rank) const {
    const nlohmann::json report = program.report();
    EXPECT_EQ(report["status"], "failed");
    EXPECT_EQ(report["error"]["rank"], rank) << report["error"];
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
  }
  Program program;

 private:
  std::string mpirun_;
};

}  // namespace ddpbench::test
