// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The regression gate: compares the runs of new reports with those of a baseline. docs/gate.md
// explains how it decides and how often it errs. Start reading at check_reports().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// In order of severity.
enum class GateVerdict : std::uint8_t { pass, improved, inconclusive, regressed };
std::string_view to_string(GateVerdict verdict);  // "PASS"

struct GateOptions {
  double alpha = 0.05;  // probability of any false alarm among all tests of one check, in (0, 0.5)
  // Minimum effects, as fractions. A smaller change is no regression, however significant it is.
  // PASS needs a change of twice the minimum effect to be excluded.
  double max_slowdown = 0.05;       // of the median step and of the throughput
  double max_tail_slowdown = 0.10;  // of the 95th percentile of the step
  double max_memory_growth = 0.05;
  double max_loss_increase = 0.05;          // of the baseline's final training loss
  double max_accuracy_drop = 0.005;         // of all test samples: 0.005 is half a percentage point
  std::vector<std::string> allow_mismatch;  // from gate_setting_keys()
};

// The verdict on one figure of a pair. `change` says how much worse the new runs are, as a fraction
// of the baseline (negative: better); for the accuracy as a fraction of all samples. It is the
// difference between `base` and `candidate`.
struct FigureVerdict {
  std::string name;  // "median_step_s"
  GateVerdict verdict = GateVerdict::pass;
  // The mean over repetitions (geometric, of the accuracy arithmetic) after far-off ones were drawn
  // in, which was compared; and as they were measured, which differs only where `outliers` > 0.
  std::optional<double> base, candidate, base_measured, candidate_measured;
  double minimum_effect = 0;  // on the scale of `change`
  std::optional<double> change;
  std::optional<double> change_low, change_high;  // two-sided interval of confidence 1 - 2 alpha
  std::optional<double> p_worse, p_better;        // one-sided, Holm-adjusted over the check
  std::optional<double> noise;  // a repetition's standard deviation, on the scale of `change`
  int outliers = 0;             // far-off repetitions that were drawn in
  std::optional<int> repetitions_needed;  // of each side, if INCONCLUSIVE and known
  std::string note;                       // a reason beyond the numbers
};

struct PairKey {
  std::string strategy;  // or the operation of a collective, "all_reduce"
  int world_size = 1, servers = 0;
  std::string backend;      // empty: one device
  bool collective = false;  // a row of `ddpbench comm`, whose world size is its number of ranks
  std::uint64_t bytes = 0;  // of a collective: of its whole buffer
  auto operator<=>(const PairKey&) const = default;
};
// "barrier, 2 ranks, shm", "ddp, 2 devices, shm, global_batch_size=128".
std::string to_string(const PairKey& key, const std::string& setting = "");

struct PairVerdict {
  PairKey key;
  std::string setting;  // how it differs from other pairs of the key: "global_batch_size=128"
  GateVerdict verdict = GateVerdict::pass;
  std::size_t base_repetitions = 0, candidate_repetitions = 0;  // that are usable
  double candidate_s = 0;  // time that all new runs of the pair took, as far as they recorded it
  std::string base_injected, candidate_injected;  // planted faults; empty: none
  std::vector<FigureVerdict> figures;
  std::vector<std::string> notes;
};

// Runs that were not compared: they have no counterpart, or none of the baseline's ended well.
struct UncomparedRuns {
  bool candidate = false;  // false: of the baseline
  PairKey key;
  std::string setting;
  std::size_t repetitions = 0;
  std::string reason;
};

struct GateOrigin {
  std::string started_at;          // "2026-01-31T12:00:00Z", of the first; empty: not known
  std::vector<std::string> hosts;  // each one once
};

struct GateResult {
  GateOptions options;
  GateVerdict verdict = GateVerdict::pass;  // the worst of all pairs
  std::vector<PairVerdict> pairs;
  std::vector<UncomparedRuns> uncompared;
  std::size_t tests = 0;  // hypotheses that the correction counts
  std::vector<std::string> notes;
  GateOrigin origin;
  // Why nothing was compared: then there are no pairs, and no verdict, and the result is written so
  // that no earlier file is mistaken for it. Empty: it was.
  std::string refusal;
};

// Throws ConfigError when settings of a pair differ, with their keys and both values, and when no
// runs can be compared. The reports need to live only during the call.
GateResult check_reports(std::span<const Report> candidate, std::span<const Report> base,
                         const GateOptions& options);

// What allow_mismatch takes: the keys of settings that must be equal in a pair, as these reports
// have them ("device_model", "optimizer/lr", ...), and their parts before and after the "/".
// "optimizer" stands for all of "optimizer/...".
std::vector<std::string> gate_setting_keys(std::span<const Report> candidate,
                                           std::span<const Report> base);

// One line: the verdict, and how many pairs got each verdict; or why nothing was compared.
std::string gate_summary(const GateResult& result);
// The whole result for people, at most `width` columns wide when width > 0.
std::string render_gate_table(const GateResult& result, int width);
// Markdown for a comment on a pull request.
std::string render_gate_markdown(const GateResult& result);
// JSON as schema/check-1.schema.json describes it.
std::string render_gate_json(const GateResult& result);
// JUnit XML: a case for each pair. REGRESSED is a failure, INCONCLUSIVE an error, and so is a check
// that could not be made.
std::string render_gate_junit(const GateResult& result);
// Workflow commands of GitHub Actions: ::error for a regression, ::warning for inconclusive pairs,
// uncompared runs and notes, ::notice for the summary.
std::string render_gate_github(const GateResult& result);

}  // namespace ddpbench::report
