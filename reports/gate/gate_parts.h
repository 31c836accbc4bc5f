// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of the gate: the figures that it compares, the runs that it compares with each other,
// and the words that all outputs share. Private to reports/.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/settings.h"
#include "reports/gate/gate.h"
#include "reports/metrics/comparison.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// ---- figures, and the scale of the comparison ----

struct GateFigure {
  enum Trait : unsigned {
    kByDifference = 1U << 0U,  // compared by differences; the others by ratios
    kHigherIsBetter = 1U << 1U,
    kIndecisive = 1U << 2U,    // when only it is too noisy, the pair is not INCONCLUSIVE
    kOfEqualSteps = 1U << 3U,  // not compared when steps, epochs or global batch differ
    kOfCollectives = 1U << 4U  // collectives alone have it; the others belong to training runs
  };
  const char* name;  // key in JSON
  const char* heading;
  double GateOptions::*limit;
  Figure (*value)(const Run&);
  double unit;               // in which people read it
  const char* text;          // "{:.3f} ms": a value in that unit
  double step_quantile = 0;  // of the step times, that the figure is or follows from; 0: of none
  unsigned traits = 0;
  bool is(Trait trait) const { return (traits & trait) != 0; }
};

std::span<const GateFigure> gate_figures();
const GateFigure& gate_figure(std::string_view name);

// The value on a scale where larger is worse for every figure: log seconds, -log samples/s.
double badness(const GateFigure& figure, double value);
double value_of_badness(const GateFigure& figure, double badness);
// From a difference of badness to the share of the baseline that people read: 0.05 is a step that
// takes 5 % longer, or a throughput that fell by 5 %. Negative: better.
double change_of(const GateFigure& figure, double difference);
// The minimum effect as a difference of badness. A throughput has the one of the step from which it
// follows: a step that takes 5 % longer is a throughput that fell by 4.8 %.
double least_effect(const GateFigure& figure, const GateOptions& options);

// The variance of the figure within one run: between its values for ten consecutive parts of the
// run. It replaces the variance between repetitions when each side has only one, and is a poor
// substitute (docs/gate.md). It has no degrees of freedom for figures without a step_quantile and
// for runs of fewer than 20 steps.
VarianceEstimate variance_within(const GateFigure& figure, const Run& run);

// ---- pairs: rows of `ddpbench comm` are runs whose steps are the iterations, so they are paired,
// tested and judged by the same rules ----

// Repetitions from any number of reports, runs or collectives: strategy, devices, servers, backend,
// settings and planted faults are equal. A run that did not end well joins the cell that agrees
// with all it recorded.
struct Cell {
  PairKey key;
  Settings settings;     // those that must be equal in two runs that are compared
  std::string injected;  // planted faults; no setting: slowed runs may meet clean ones
  std::vector<const Run*> runs;
  std::string setting = {};  // "global_batch_size=64": how it differs from others of its key
};

struct PairedCells {
  Cell candidate, base;
  std::vector<std::string> differing;  // keys of settings; all of them are allowed
};

struct Pairing {
  std::vector<PairedCells> pairs;  // in the order of the new reports
  std::vector<Cell> candidate_alone, base_alone;
  std::deque<Run> collectives;  // the runs that stand for rows of collectives: cells point to them
};

// A cell for each run and each collective of the reports, in their order. `collectives` is given
// the runs that stand for collectives. A setting that a run did not record is absent.
std::vector<Cell> single_cells(std::span<const Report> reports, std::deque<Run>& collectives);

// Pairs the cells. A sweep may have several cells of one key: equal settings find each other first,
// and among these equal planted faults. Points into the reports. Throws ConfigError when settings
// differ that `allowed` does not name: the key, its group ("optimizer" of "optimizer/lr") or its
// last part.
Pairing pair_runs(std::span<const Report> candidate, std::span<const Report> base,
                  std::span<const std::string> allowed);

// Appends the verdicts on the pairs to the result, or to `uncompared` where none of the baseline's
// runs ended well. Sets `tests` and `verdict`.
void judge_pairs(std::span<const PairedCells> all, GateResult& result);

// ---- words ----

// "20.130 ms", "412.0 MiB", "98.12 %"; "-" without a value.
std::string figure_text(const std::string& name, const std::optional<double>& value);
// "2.1 % worse", "9.1 % better", "unchanged", of the accuracy "0.30 points worse"; "-" without one.
std::string change_text(const std::string& name, const std::optional<double>& change);
// "-0.3 to 4.5", in per cent or points, of a change that is told as worse or as better; empty when
// the figure does not vary or no interval is known.
std::string interval_text(const FigureVerdict& figure);
// "7.075 -> 8.672 ms": the means of all repetitions as they were measured. REQUIRES: it has both.
std::string measured_text(const FigureVerdict& figure);
std::string figure_heading(const FigureVerdict& figure);  // "median step"

// "ddp, 2 devices, shm, global_batch_size=64 [new runs injected: slow:rank=1,...]"
std::string pair_title(const PairVerdict& pair);
std::string interval_heading(const GateOptions& options);  // "90 % interval"
// "5 new repetitions against 5 of the baseline"
std::string repetitions_text(const PairVerdict& pair);
// "12.4 % slower" or "as fast" of the median step or time, "final loss 3.0 % worse", "peak memory
// unchanged".
std::string change_words(const FigureVerdict& figure);
// Whether the figure has a say in the verdict of its pair.
bool counts(const FigureVerdict& figure);
// The first that has the pair's verdict; null where none has: then the first note says the reason.
const FigureVerdict* deciding_figure(const PairVerdict& pair);
// Two lines: what decided; what would decide, the other figures in short, and the notes.
std::vector<std::string> pair_lines(const PairVerdict& pair);
// What is not of any pair.
std::vector<std::string> remarks(const GateResult& result);
// A row for each figure of the pair.
TextTable figures_table(const PairVerdict& pair, const GateOptions& options);
std::string uncompared_text(const UncomparedRuns& runs);  // "new ddp (1 run): not in the baseline"

}  // namespace ddpbench::report
