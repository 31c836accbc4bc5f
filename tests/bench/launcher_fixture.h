// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// For tests of matrices whose runs a launcher starts. The remote shell is a script that runs the
// command here, so "hosts" are names for this machine.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench::test {

class Launchers : public testing::Test {
 protected:
  Launchers() {
    program.write("lenet.json", config);
    write_script("shell", "#!/bin/sh\nshift\nexec sh -c \"$1\"\n");
    program.environment = {{"MASTER_PORT", std::to_string(free_port())}};
  }
  void write_script(const std::string& name, const std::string& text) const {
    program.write(name, text);
    ::chmod(program.path(name).c_str(), 0700);
  }
  // A program that is found before any other of that name.
  void put_in_path(const std::string& name, const std::string& text) {
    write_script(name, text);
    const char* const path = ::getenv("PATH");
    program.environment["PATH"] = std::string(program.directory()) + ":" + (path ? path : "");
  }
  std::vector<std::string> on_hosts(const std::string& strategies, const std::string& gpus,
                                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--gpus=" + gpus, "--hosts=127.0.0.1:1,127.0.0.2:1",
                                    "--remote-shell=./shell"};
    all.insert(all.end(), more.begin(), more.end());
    return small_run(strategies, all);
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
  }
  std::vector<int> processes_of_rank(int rank) const {
    return test::processes_of_rank(program, rank);
  }
  void expect_matrix(const nlohmann::json& report,
                     const std::vector<std::string>& strategies) const {
    EXPECT_EQ(report["status"], "ok");
    std::vector<std::string> made;
    std::set<int> sequence;
    for (const nlohmann::json& run : report["runs"]) {
      made.push_back(run["strategy"]);
      sequence.insert(run["sequence"].get<int>());
      EXPECT_EQ(run["status"], "ok");
      EXPECT_EQ(run["step"]["count"], 4);
      EXPECT_EQ(run["verification"]["status"],
                run["strategy"] == "single" ? "reference" : "passed");
    }
    EXPECT_EQ(made, strategies);
    EXPECT_EQ(sequence.size(), strategies.size());
  }
  // Its runs are those of expect_matrix().
  void expect_trace() const {
    const nlohmann::json trace = nlohmann::json::parse(program.read("trace.json"));
    EXPECT_THAT(trace_problems(trace), testing::IsEmpty());
    EXPECT_THAT(process_names(trace),
                testing::ElementsAre("single on 1 device, rank 0", "ddp on 1 device, rank 0",
                                     "ddp on 2 devices, rank 0", "ddp on 2 devices, rank 1",
                                     "ps on 1 device and 1 server, rank 0",
                                     "ps on 1 device and 1 server, rank 1 (server)",
                                     "ps on 2 devices and 1 server, rank 0",
                                     "ps on 2 devices and 1 server, rank 1",
                                     "ps on 2 devices and 1 server, rank 2 (server)"));
    for (int process = 0; process < 9; ++process) {
      EXPECT_EQ(count_events(trace, process, "step"), 3) << process;
    }
  }
  const std::string config = small_config({.steps = 4, .verify_steps = 1, .timeout_s = 20});
  Program program;
};

}  // namespace ddpbench::test
