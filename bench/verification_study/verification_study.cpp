// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures how often the verification errs, with the program's own code on random networks, data
// and settings:
//
//   verification_study [--healthy=N] [--faults=N] [--seed=S] [--verbose]
//
// prints the table of docs/metrics.md. Healthy cases must pass; cases with a planted fault must
// fail, unless the fault changes no weight by a single bit. Exit code: 0 when all did, else 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "bench/verification_study/study_run.h"

namespace ddpbench::bench {
namespace {

struct Row {
  int cases = 0, wrong = 0, diverged = 0, without_effect = 0;
  std::int64_t steps = 0;
  std::vector<double> worst;  // error / tolerance of each case
};

class Study {
 public:
  explicit Study(bool verbose) : verbose_(verbose) {}

  void add_healthy(std::uint64_t seed) {
    const StudyCase drawn = draw_case(seed);
    const StudyOutcome outcome = run(drawn);
    Row& row = rows_[drawn.options.strategies[0] + ", healthy"];
    enter(outcome, row);
    if (!outcome.passed) note(row, "FALSE ALARM", drawn, outcome.failure);
  }

  // Draws further seeds until the fault hits something.
  void add_faulty(std::uint64_t& seed) {
    StudyCase drawn = draw_faulty_case(seed);
    StudyOutcome outcome = run(drawn);
    while (!outcome.missed.empty()) {
      drawn = draw_faulty_case(++seed);
      outcome = run(drawn);
    }
    Row& row = rows_[drawn.options.strategies[0] + ", " + drawn.options.injections[0].kind];
    enter(outcome, row);
    if (!outcome.passed) return;
    StudyCase healthy = drawn;
    healthy.options.injections.clear();
    std::vector<std::uint64_t> weights = run(healthy).weights;
    if (std::ranges::is_permutation(weights, outcome.weights)) {
      ++row.without_effect;
    } else {
      note(row, "MISSED", drawn, fmt::format("error {:.2g} of the tolerance", outcome.worst));
    }
  }

  // Returns whether nothing went wrong.
  bool print() {
    fmt::print(
        "| cases | number | wrong | no effect | diverged | steps compared | error / tolerance: "
        "median | most |\n|---|---|---|---|---|---|---|---|\n");
    bool right = true;
    for (auto& [name, row] : rows_) {
      std::ranges::sort(row.worst);
      fmt::print("| {} | {} | {} | {} | {} | {} | {:.2g} | {:.2g} |\n", name, row.cases, row.wrong,
                 row.without_effect, row.diverged, row.steps, row.worst[row.worst.size() / 2],
                 row.worst.back());
      right = right && row.wrong == 0;
    }
    return right;
  }

 private:
  StudyOutcome run(const StudyCase& drawn) {
    if (verbose_) fmt::print(stderr, "{}\n", drawn.describe());
    return runner_.run(drawn);
  }

  static void enter(const StudyOutcome& outcome, Row& row) {
    ++row.cases;
    row.diverged += outcome.diverged.empty() ? 0 : 1;
    row.steps += outcome.steps;
    row.worst.push_back(outcome.worst);
  }

  static void note(Row& row, const char* what, const StudyCase& drawn, const std::string& why) {
    ++row.wrong;
    fmt::print("{}: {}: {}\n", what, drawn.describe(), why);
    std::fflush(stdout);
  }

  bool verbose_;
  StudyRunner runner_;
  std::map<std::string, Row> rows_;
};

int run(int argc, char** argv) {
  CLI::App app("Measures how often the verification errs.", "verification_study");
  int healthy = 3000, faults = 300;
  std::uint64_t seed = 1;
  bool verbose = false;
  app.add_option("--healthy", healthy, "Cases without a fault")->check(CLI::NonNegativeNumber);
  app.add_option("--faults", faults, "Cases with one")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", seed, "Of the first case");
  app.add_flag("--verbose", verbose, "Print each case before it runs");
  CLI11_PARSE(app, argc, argv);
  Study study(verbose);
  for (int i = 0; i < healthy; ++i) study.add_healthy(seed + static_cast<std::uint64_t>(i));
  std::uint64_t next = seed;
  for (int i = 0; i < faults; ++i, ++next) study.add_faulty(next);
  return study.print() ? 0 : 1;
}

}  // namespace
}  // namespace ddpbench::bench

int main(int argc, char** argv) {
  try {
    return ddpbench::bench::run(argc, argv);
  } catch (const ddpbench::Error& error) {
    fmt::print(stderr, "verification_study: {}\n", error.what());
    return error.exit_code();
  }
}
