// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the built program as a user would, in a directory of its own.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ddpbench::test {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out, err;
};

// A temporary directory and the program in it. No real data set is visible from there, but 2048 and
// 512 digits as MNIST's files have them, since most runs need few and to draw 70000 takes a fifth
// of a small one's time; or none, so that the program draws them all.
class Program {
 public:
  enum class Digits { none, few };
  explicit Program(Digits digits = Digits::few);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string executable;                          // in place of the program, if set
  std::map<std::string, std::string> environment;  // added to a minimal one
  std::vector<int> closed;                         // standard descriptors that it starts without
  std::string stdout_path;                         // where stdout goes instead of `out`, if set
  std::function<void()> prepare;                   // called in the new process, before the program

  ProgramResult run(const std::vector<std::string>& arguments);
  // Starts the program, calls `act` with its process number, then waits for it.
  ProgramResult run(const std::vector<std::string>& arguments,
                    const std::function<void(int pid)>& act);
  // Runs several processes at once with variables of their own, as an external launcher would.
  std::vector<ProgramResult> run_together(
      const std::vector<std::string>& arguments,
      const std::vector<std::map<std::string, std::string>>& environments);
  // Starts one process; its output goes to files whose names end with `tag`. Returns its number.
  int start(const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& environment, const std::string& tag) const;
  // Waits for it.
  ProgramResult finish(int pid, const std::string& tag) const;

  std::filesystem::path directory() const { return directory_; }
  std::string path(const std::string& name) const { return directory_ / name; }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  // The report, parsed and checked against the schema (a mismatch fails the test).
  nlohmann::json report(const std::string& name = "report.json") const;

  // The processes of this program that still exist, found by their working directory.
  std::vector<int> processes() const;
  // Waits for `condition`, up to a generous limit; returns whether it came true.
  static bool wait_until(const std::function<bool()>& condition);

 private:
  std::filesystem::path directory_;
  // The last text of each report, and what it says: tests ask for one again and again.
  mutable std::map<std::string, std::pair<std::string, nlohmann::json>> reports_;
};

// Writes drawn digits to MNIST's four files in a folder of the program's directory.
void write_digits(const Program& program, const std::string& folder, int train, int test);
// Records as CIFAR-10's binary files have them.
std::string cifar_records(int count, int seed);
// Writes `train` files of 40 records each and 20 test records to data/cifar10/.
void write_cifar(const Program& program, int train);

// The text of a configuration file: LeNet-5 on synthetic digits, a few steps.
struct SmallConfig {
  int epochs = 1, steps = 6, warmup_steps = 1, verify_steps = 2, timeout_s = 60;
};
std::string small_config(const SmallConfig& config);

// Arguments of a small run of lenet.json: 2 devices unless `more` says, a few steps, report.json.
std::vector<std::string> small_run(const std::string& strategy,
                                   const std::vector<std::string>& more = {});

}  // namespace ddpbench::test
