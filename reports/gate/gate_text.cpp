// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/text.h"
#include "reports/gate/gate_figures.h"

namespace ddpbench::report {
namespace {

constexpr double kPercentUnit = 0.01;
constexpr double kMillisecondUnit = 1e-3, kMicrosecondUnit = 1e-6;

bool is_accuracy(const std::string& name) { return name == "final_test_accuracy"; }

// The accuracy changes by points, everything else by per cent of what it was.
std::string amount(const std::string& name, double change) {
  return is_accuracy(name) ? fmt::format("{:.2f} points", change / kPercentUnit)
                           : fmt::format("{:.1f} %", change / kPercentUnit);
}

// The amount of `change` as a number without a unit or a sign.
std::string bare_amount(const std::string& name, double change) {
  return fmt::format("{:.{}f}", std::abs(change) / kPercentUnit, is_accuracy(name) ? 2 : 1);
}

std::string values_text(const std::string& name, const std::optional<double>& base,
                        const std::optional<double>& candidate) {
  return fmt::format("{} -> {}", figure_text(name, base), figure_text(name, candidate));
}

}  // namespace

std::string figure_text(const std::string& name, const std::optional<double>& value) {
  if (!value) return "-";
  if (name == "samples_per_s") return fmt::format("{:.0f} /s", *value);
  if (name == "peak_bytes") return fmt::format("{:.1f} MiB", *value / kMiB);
  if (name == "final_train_loss") return fmt::format("{:.4f}", *value);
  if (is_accuracy(name)) return fmt::format("{:.2f} %", *value / kPercentUnit);
  if (name.ends_with("_time_s")) return fmt::format("{:.2f} us", *value / kMicrosecondUnit);
  return fmt::format("{:.3f} ms", *value / kMillisecondUnit);
}

std::string change_text(const std::string& name, const std::optional<double>& change) {
  if (!change) return "-";
  if (*change == 0) return "unchanged";
  return fmt::format("{} {}", amount(name, std::abs(*change)), *change > 0 ? "worse" : "better");
}

std::string interval_text(const FigureVerdict& figure) {
  if (!figure.change_low || !figure.change_high) return "";
  const double low = *figure.change_low, high = *figure.change_high;
  if (low == high) return "";
  const std::string first = bare_amount(figure.name, low), last = bare_amount(figure.name, high);
  if (low > 0) return fmt::format("{} .. {} worse", first, last);
  if (high < 0) return fmt::format("{} .. {} better", last, first);
  return fmt::format("{} better .. {} worse", first, last);
}

std::string p_text(const FigureVerdict& figure) {
  if (interval_text(figure).empty() || !figure.change) return "";
  const std::optional<double>& p = *figure.change > 0 ? figure.p_worse : figure.p_better;
  if (!p) return "-";
  return *p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", *p);
}

std::string measured_text(const FigureVerdict& figure) {
  return values_text(figure.name, figure.base_measured, figure.candidate_measured);
}

std::string figure_heading(const FigureVerdict& figure) { return gate_figure(figure.name).heading; }

std::string pair_title(const PairVerdict& pair) {
  std::string title = to_string(pair.key, pair.setting);
  if (!pair.candidate_injected.empty()) {
    title += fmt::format(" [new runs injected: {}]", pair.candidate_injected);
  }
  if (!pair.base_injected.empty()) {
    title += fmt::format(" [baseline injected: {}]", pair.base_injected);
  }
  return title;
}

std::string interval_heading(const GateOptions& options) {
  return fmt::format("{:.0f} % interval", 100 * (1 - 2 * options.alpha));
}

std::string repetitions_text(const PairVerdict& pair) {
  return fmt::format("{} against {} of the baseline",
                     counted(pair.candidate_repetitions, "new repetition"), pair.base_repetitions);
}

std::string figure_sentence(const FigureVerdict& figure, const GateOptions& options) {
  std::string text = figure_heading(figure);
  if (figure.change) {
    const std::string interval = interval_text(figure), p = p_text(figure);
    text += " " + change_text(figure.name, figure.change);
    if (!interval.empty()) {
      text += fmt::format(" ({} {}, p {}{})", interval_heading(options), interval,
                          p.starts_with('<') ? "" : "= ", p);
    }
    text += fmt::format(": {}, allowed {}", values_text(figure.name, figure.base, figure.candidate),
                        amount(figure.name, figure.minimum_effect));
  }
  if (!figure.note.empty()) text += (figure.change ? "; " : " ") + figure.note;
  if (figure.repetitions_needed) {
    text += fmt::format("; about {} repetitions a side would decide", *figure.repetitions_needed);
  }
  return text;
}

bool needs_words(const FigureVerdict& figure, const PairVerdict& pair) {
  if (figure.verdict == GateVerdict::pass) return false;
  if (figure.name != "samples_per_s") return true;
  return std::ranges::none_of(pair.figures, [&figure](const FigureVerdict& other) {
    return other.name == "median_step_s" && other.verdict == figure.verdict;
  });
}

std::string uncompared_text(const UncomparedRuns& runs) {
  return fmt::format("{} {} ({}): {}", runs.candidate ? "new" : "baseline",
                     to_string(runs.key, runs.setting), counted(runs.repetitions, "run"),
                     runs.reason);
}

std::string gate_summary(const GateResult& result) {
  if (!result.refusal.empty()) return "not compared: " + result.refusal;
  std::vector<std::string> parts;
  for (const GateVerdict verdict : {GateVerdict::regressed, GateVerdict::inconclusive,
                                    GateVerdict::improved, GateVerdict::pass}) {
    const auto count = std::ranges::count(result.pairs, verdict, &PairVerdict::verdict);
    if (count > 0) parts.push_back(fmt::format("{} {}", count, to_string(verdict)));
  }
  std::string text = fmt::format("{}: {} compared ({})", to_string(result.verdict),
                                 counted(result.pairs.size(), "pair"), fmt::join(parts, ", "));
  if (!result.uncompared.empty()) {
    text += fmt::format(", {} not compared", counted(result.uncompared.size(), "group"));
  }
  return text;
}

std::string rule_sentence(const GateResult& result) {
  const GateOptions& options = result.options;
  std::vector<std::string> limits;
  for (const GateFigure& figure : gate_figures()) {
    const bool compared = std::ranges::any_of(result.pairs, [&](const PairVerdict& pair) {
      return pair.key.collective == figure.is(GateFigure::kOfCollectives);
    });
    if (!compared) continue;
    limits.push_back(
        fmt::format("{} {}", figure.heading,
                    amount(figure.name, change_of(figure, least_effect(figure, options)))));
  }
  return fmt::format("alpha {}, Holm over {}; allowed: {}", options.alpha,
                     counted(result.tests, "test"), fmt::join(limits, ", "));
}

}  // namespace ddpbench::report
