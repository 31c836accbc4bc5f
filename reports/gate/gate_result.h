// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the regression gate is asked and what it finds, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::report {

enum class GateVerdict : std::uint8_t {
  pass,
  improved,
  inconclusive,
  regressed
};                                                // rising severity
std::string_view to_string(GateVerdict verdict);  // "PASS"

struct GateOptions {
  double alpha = 0.05;  // probability of any false alarm among all tests of one check, in (0, 0.5)
  // Minimum effects, as fractions: what is not larger is no regression, however significant. Twice
  // as much must be excluded for a PASS.
  double max_slowdown = 0.05;       // of the median step and of the throughput
  double max_tail_slowdown = 0.10;  // of the 95th percentile of the step
  double max_memory_growth = 0.05;
  double max_loss_increase = 0.05;          // of the baseline's final training loss
  double max_accuracy_drop = 0.005;         // of all test samples: half a percentage point
  std::vector<std::string> allow_mismatch;  // from gate_setting_keys()
};

// One figure of a pair. `change` is how much worse the new one is, as a fraction of the baseline
// (negative: better); of the accuracy as a fraction of all samples.
struct FigureVerdict {
  std::string name;  // "median_step_s"
  GateVerdict verdict = GateVerdict::pass;
  std::optional<double> base, fresh;  // mean over repetitions (geometric but for the accuracy)
  double minimum_effect = 0;
  std::optional<double> change;
  std::optional<double> change_low, change_high;  // two-sided interval of confidence 1 - 2 alpha
  std::optional<double> p_worse, p_better;        // one-sided, Holm-adjusted over the check
  std::optional<double> noise;  // a repetition's standard deviation, on the scale of `change`
  int outliers = 0;             // repetitions far off, which were drawn in
  std::optional<int> repetitions_needed;  // with INCONCLUSIVE: a side, when it can be said
  std::string note;                       // why, where the numbers do not say it
};

// What pairs runs: strategy, devices, servers, backend.
struct PairKey {
  std::string strategy;
  int world_size = 1, servers = 0;
  std::string backend;  // empty: one device
  auto operator<=>(const PairKey&) const = default;
};
std::string to_string(const PairKey& key);  // "ddp, 2 devices, shm"
// "ddp, 2 devices, shm, global_batch_size=128"; an empty setting adds nothing.
std::string to_string(const PairKey& key, const std::string& setting);

struct PairVerdict {
  PairKey key;
  std::string setting;  // what tells it from other pairs of this key ("global_batch_size=128")
  GateVerdict verdict = GateVerdict::pass;
  std::size_t base_repetitions = 0, fresh_repetitions = 0;  // that ended well
  std::string base_injected, fresh_injected;                // planted faults; empty: none
  std::vector<FigureVerdict> figures;
  std::vector<std::string> notes;
};

// Runs that were not compared: no counterpart, or none that ended well on the baseline's side.
struct UncomparedRuns {
  bool fresh = false;  // else of the baseline
  PairKey key;
  std::string setting;
  std::size_t repetitions = 0;
  std::string reason;
};

struct GateResult {
  GateOptions options;
  GateVerdict verdict = GateVerdict::pass;  // the worst of all pairs
  std::vector<PairVerdict> pairs;
  std::vector<UncomparedRuns> uncompared;
  std::size_t tests = 0;  // that the correction counts
  std::vector<std::string> notes;
};

}  // namespace ddpbench::report
