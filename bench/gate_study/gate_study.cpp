// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures how often the gate errs, with the gate's own code on drawn repetitions.
//
//   gate_study [--trials=N] [--seed=S] [--recorded-only] [REPORT...]
//
// prints the tables of docs/gate.md. All good runs of the reports with the same strategy, number of
// devices and backend are a pool to draw from. Their settings must be equal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "base/error.h"
#include "bench/gate_study/repetition_source.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_pairing.h"
#include "reports/json/report_json.h"

namespace ddpbench::bench {
namespace {

using report::GateVerdict;

constexpr std::array<int, 5> kRepetitions = {2, 3, 5, 8, 12};
constexpr std::array<double, 4> kNoises = {0.01, 0.03, 0.05, 0.10};
constexpr std::array<int, 4> kPairs = {1, 2, 4, 8};
constexpr double kSlowdown = 1.10;
constexpr double kTargetNoise = 0.03;

using DrawPair = std::function<Draw(double slowdown)>;

struct Rates {
  double trials = 0;
  std::map<GateVerdict, double> first;  // verdicts on the first pair, which is slowed down
  double any_alarm = 0;                 // any pair is REGRESSED
  double share(GateVerdict verdict) const {
    const auto found = first.find(verdict);
    return found == first.end() ? 0 : found->second / trials;
  }
};

// One check of `pairs` pairs with different numbers of devices; the first is slowed down.
report::GateResult check_once(int pairs, double slowdown, const DrawPair& draw_pair) {
  std::vector<report::Report> base(1), candidate(1);
  for (int pair = 0; pair < pairs; ++pair) {
    Draw draw = draw_pair(pair == 0 ? slowdown : 1.0);
    for (auto [runs, report] :
         {std::tie(draw.base, base[0]), std::tie(draw.candidate, candidate[0])}) {
      for (report::Run& run : runs) {
        run.world_size = pair + 1;
        report.runs.push_back(std::move(run));
      }
    }
  }
  return report::check_reports(candidate, base, {});
}

Rates measure(int trials, int pairs, double slowdown, const DrawPair& draw_pair) {
  Rates rates;
  for (int trial = 0; trial < trials; ++trial) {
    const report::GateResult result = check_once(pairs, slowdown, draw_pair);
    rates.trials += 1;
    rates.first[result.pairs.front().verdict] += 1;
    rates.any_alarm += result.verdict == GateVerdict::regressed ? 1 : 0;
  }
  return rates;
}

constexpr const char* kHeader =
    "false alarm | PASS | INCONCLUSIVE | 10 % slower found | 10 % slower passed |\n";

// The columns for an identical program and for one that is slowed down.
std::string row(int trials, int pairs, const DrawPair& draw_pair) {
  const Rates same = measure(trials, pairs, 1, draw_pair);
  const Rates slow = measure(trials, pairs, kSlowdown, draw_pair);
  return fmt::format("{:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % |\n",
                     100 * same.share(GateVerdict::regressed),
                     100 * (same.share(GateVerdict::pass) + same.share(GateVerdict::improved)),
                     100 * same.share(GateVerdict::inconclusive),
                     100 * slow.share(GateVerdict::regressed),
                     100 * (slow.share(GateVerdict::pass) + slow.share(GateVerdict::improved)));
}

class Study {
 public:
  Study(int trials, std::uint64_t seed) : trials_(trials), random_(seed) {}

  void by_repetitions() {
    fmt::print(
        "\n### Repetitions and noise\n\nOne pair, noise independent.\n\n"
        "| noise | repetitions | {}|---|---|---|---|---|---|---|\n",
        kHeader);
    for (const double noise : kNoises) {
      print_row(fmt::format("{:.0f} % | 1", 100 * noise), 1, model(0, noise, 1));
      for (const int repetitions : kRepetitions) {
        print_row(fmt::format("{:.0f} % | {}", 100 * noise, repetitions), 1,
                  model(0, noise, repetitions));
      }
    }
  }

  void by_model() {
    fmt::print(
        "\n### Kinds of noise\n\nOne pair, 5 repetitions a side.\n\n"
        "| kind | noise | {}|---|---|---|---|---|---|---|\n",
        kHeader);
    for (std::size_t i = 0; i < noise_models().size(); ++i) {
      for (const double noise : {0.03, 0.05}) {
        print_row(fmt::format("{} | {:.0f} %", noise_models()[i].name, 100 * noise), 1,
                  model(i, noise, 5));
      }
    }
  }

  void by_pairs() {
    fmt::print(
        "\n### Number of pairs\n\n5 repetitions a side, noise 3 %; one pair is slower.\n\n"
        "| pairs | kind | {}|---|---|---|---|---|---|---|\n",
        kHeader);
    for (const int pairs : kPairs) {
      for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
        print_row(fmt::format("{} | {}", pairs, noise_models()[i].name), pairs,
                  model(i, kTargetNoise, 5));
      }
    }
  }

  void recorded(const std::map<report::PairKey, std::vector<report::Run>>& pools) {
    fmt::print(
        "\n### Recorded runs\n\n| runs | recorded | repetitions | {}"
        "|---|---|---|---|---|---|---|---|\n",
        kHeader);
    for (const auto& [key, pool] : pools) {
      for (const int repetitions : kRepetitions) {
        if (2 * static_cast<std::size_t>(repetitions) > pool.size()) continue;
        print_row(fmt::format("{} | {} | {}", report::to_string(key), pool.size(), repetitions), 1,
                  [&pool = pool, repetitions, this](double slowdown) {
                    return draw_recorded(pool, repetitions, slowdown, random_);
                  });
      }
    }
  }

 private:
  DrawPair model(std::size_t index, double noise, int repetitions) {
    return [=, this](double slowdown) {
      return draw_model(noise_models()[index], noise, repetitions, slowdown, random_);
    };
  }

  void print_row(const std::string& label, int pairs, const DrawPair& draw_pair) {
    fmt::print("| {} | {}", label, row(trials_, pairs, draw_pair));
    std::fflush(stdout);
  }

  int trials_;
  Normal random_;
};

// A difference between settings would pass for noise.
void refuse_difference(const report::Settings& first, const report::Settings& own,
                       const report::Run& run, const std::string& path) {
  const auto keys = report::differing_keys(first, own);
  if (keys.empty()) return;
  throw ConfigError(fmt::format(
      "gate_study: {}: {} differs from the runs of {} before it; give reports of equal settings",
      path, fmt::join(keys, ", "), report::to_string(report::pair_key(run))));
}

std::map<report::PairKey, std::vector<report::Run>> read_pools(
    const std::vector<std::string>& paths) {
  std::map<report::PairKey, std::vector<report::Run>> pools;
  std::map<report::PairKey, report::Settings> settings;
  for (const std::string& path : paths) {
    const report::Report report = report::read_report(path);
    for (const report::Run& run : report.runs) {
      if (run.status != report::Status::ok || !run.step.time_s) continue;
      const report::PairKey key = report::pair_key(run);
      report::Settings own = report::pair_settings(report, run);
      own["injected"] = run.injected;
      refuse_difference(settings.try_emplace(key, own).first->second, own, run, path);
      pools[key].push_back(run);
    }
  }
  return pools;
}

int run(int argc, char** argv) {
  CLI::App app("Measures how often the gate errs.", "gate_study");
  int trials = 10000;
  std::uint64_t seed = 1;
  std::vector<std::string> reports;
  app.add_option("--trials", trials, "Checks a cell")->check(CLI::PositiveNumber);
  app.add_option("--seed", seed, "Of all draws");
  bool recorded_only = false;
  app.add_flag("--recorded-only", recorded_only, "Leave the models out");
  app.add_option("REPORT", reports, "Reports to draw repetitions from");
  CLI11_PARSE(app, argc, argv);
  const auto pools = read_pools(reports);
  fmt::print("{} checks a row, seed {}; the standard error of a share p is {:.2f} % at p = 2 %.\n",
             trials, seed, 100 * std::sqrt(0.02 * 0.98 / trials));
  Study study(trials, seed);
  if (!recorded_only) {
    study.by_repetitions();
    study.by_model();
    study.by_pairs();
  }
  if (!pools.empty()) study.recorded(pools);
  return 0;
}

}  // namespace
}  // namespace ddpbench::bench

int main(int argc, char** argv) {
  try {
    return ddpbench::bench::run(argc, argv);
  } catch (const ddpbench::ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
