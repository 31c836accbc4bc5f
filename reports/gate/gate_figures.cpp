// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The figures that the gate compares, and how it speaks of them.
#include "reports/gate/gate_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/math.h"
#include "base/ranges.h"
#include "base/text.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kPartsOfRun = 10;   // into which variance_within() cuts a run
constexpr std::size_t kFewestSteps = 20;  // two for each part
// Ratios of smaller losses mean nothing.
constexpr double kLeastLoss = 1e-6;
constexpr double kPercentUnit = 0.01;
constexpr double kMedian = 0.5;
constexpr const char* kThroughput = "samples_per_s";

Figure median_step(const Run& run) { return step_figure(run, &StepStatistics::median); }

Figure tail_step(const Run& run) { return step_figure(run, &StepStatistics::p95); }

Figure throughput(const Run& run) { return run.samples_per_s; }

// The gate takes no memory for one that was not recorded.
Figure peak_memory(const Run& run) {
  const Figure peak = largest_memory(run);
  return peak.value == 0 ? Figure::missing("no memory was recorded") : peak;
}

Figure least_loss(const Run& run) {
  const Figure loss = final_loss(run);
  return loss.value ? Figure::of(std::max(*loss.value, kLeastLoss)) : loss;
}

const std::array<GateFigure, 8> kFigures = {{
    {"median_step_s", "median step", &GateOptions::max_slowdown, median_step, 1e-3, "{:.3f} ms",
     kMedian},
    {"p95_step_s", "p95 step", &GateOptions::max_tail_slowdown, tail_step, 1e-3, "{:.3f} ms", 0.95,
     GateFigure::kIndecisive},
    {kThroughput, "throughput", &GateOptions::max_slowdown, throughput, 1, "{:.0f} /s", kMedian,
     GateFigure::kHigherIsBetter},
    {"peak_bytes", "peak memory", &GateOptions::max_memory_growth, peak_memory, kMiB, "{:.1f} MiB"},
    {"final_train_loss", "final loss", &GateOptions::max_loss_increase, least_loss, 1, "{:.4f}", 0,
     GateFigure::kOfEqualSteps},
    {"final_test_accuracy", "accuracy", &GateOptions::max_accuracy_drop, final_accuracy,
     kPercentUnit, "{:.2f} %", 0,
     GateFigure::kByDifference | GateFigure::kHigherIsBetter | GateFigure::kOfEqualSteps},
    // The median over the iterations of the slowest rank's time.
    {"median_time_s", "median time", &GateOptions::max_slowdown, median_step, 1e-6, "{:.2f} us",
     kMedian, GateFigure::kOfCollectives},
    {"p95_time_s", "p95 time", &GateOptions::max_tail_slowdown, tail_step, 1e-6, "{:.2f} us", 0.95,
     GateFigure::kIndecisive | GateFigure::kOfCollectives},
}};

double sign(const GateFigure& figure) { return figure.is(GateFigure::kHigherIsBetter) ? -1 : 1; }

}  // namespace

std::span<const GateFigure> gate_figures() { return kFigures; }

const GateFigure& gate_figure(std::string_view name) {
  const auto found = std::ranges::find(kFigures, name, &GateFigure::name);
  ensure(found != kFigures.end(), "the gate has no figure {}", name);
  return *found;
}

double badness(const GateFigure& figure, double value) {
  return sign(figure) * (figure.is(GateFigure::kByDifference) ? value : std::log(value));
}

double value_of_badness(const GateFigure& figure, double badness) {
  const double value = sign(figure) * badness;
  return figure.is(GateFigure::kByDifference) ? value : std::exp(value);
}

double change_of(const GateFigure& figure, double difference) {
  if (figure.is(GateFigure::kByDifference)) return difference;
  return sign(figure) * std::expm1(sign(figure) * difference);
}

double least_effect(const GateFigure& figure, const GateOptions& options) {
  const double limit = options.*figure.limit;
  return figure.is(GateFigure::kByDifference) ? limit : std::log1p(limit);
}

VarianceEstimate variance_within(const GateFigure& figure, const Run& run) {
  const std::span<const double> steps = run.step.samples_s;
  if (figure.step_quantile == 0 || steps.size() < kFewestSteps) return {};
  std::vector<double> parts;
  for (std::size_t part = 0; part < kPartsOfRun; ++part) {
    const std::size_t begin = steps.size() * part / kPartsOfRun;
    const std::size_t end = steps.size() * (part + 1) / kPartsOfRun;
    std::vector<double> values(steps.begin() + static_cast<std::ptrdiff_t>(begin),
                               steps.begin() + static_cast<std::ptrdiff_t>(end));
    std::ranges::sort(values);
    const double value = quantile(values, figure.step_quantile);
    if (!(value > 0)) return {};  // a step cannot take no time
    parts.push_back(badness(figure, value));
  }
  return pooled_variance(std::span(&parts, 1));
}

namespace {

bool is_accuracy(const std::string& name) {
  return gate_figure(name).is(GateFigure::kByDifference);
}

// The accuracy changes by points, everything else by per cent of what it was.
std::string amount(const std::string& name, double change) {
  return is_accuracy(name) ? fmt::format("{:.2f} points", change / kPercentUnit)
                           : fmt::format("{:.1f} %", change / kPercentUnit);
}

// The amount of `change` as a number without a unit or a sign.
std::string bare_amount(const std::string& name, double change) {
  return fmt::format("{:.{}f}", std::abs(change) / kPercentUnit, is_accuracy(name) ? 2 : 1);
}

// "119.6 -> 134.4 ms": four significant digits or more, and the unit once.
std::string values_text(const std::string& name, double base, double candidate) {
  const GateFigure& figure = gate_figure(name);
  const auto digits = [&figure](double value) {
    const double shown = value / figure.unit;
    const int whole = shown > 0 ? static_cast<int>(std::floor(std::log10(shown))) + 1 : 1;
    return fmt::format("{:.{}f}", shown, std::clamp(4 - whole, 0, 9));
  };
  const std::string text = figure.text;
  return fmt::format("{} -> {}{}", digits(base), digits(candidate),
                     text.substr(text.find('}') + 1));
}

// "15.2 % slower (13.0 to 17.4), 5.585 -> 6.432 ms; allowed 5 %".
std::string finding(const FigureVerdict& figure) {
  if (!figure.change) return figure_heading(figure) + " " + figure.note;
  const std::string range = interval_text(figure);
  return fmt::format("{}{}, {}; allowed {:.3g} {}", change_words(figure),
                     range.empty() ? "" : fmt::format(" ({})", range),
                     values_text(figure.name, *figure.base, *figure.candidate),
                     figure.minimum_effect / kPercentUnit,
                     is_accuracy(figure.name) ? "points" : "%");
}

// Why there is no verdict, and what would give one; empty: there is one, or finding() says it.
std::string advice(const FigureVerdict& figure) {
  std::string text = figure.change ? figure.note : "";
  if (!figure.repetitions_needed) return text;
  return text + fmt::format("{}about {} repetitions a side would decide", text.empty() ? "" : "; ",
                            *figure.repetitions_needed);
}

}  // namespace

std::string figure_text(const std::string& name, const std::optional<double>& value) {
  if (!value) return "-";
  const GateFigure& figure = gate_figure(name);
  return fmt::format(fmt::runtime(figure.text), *value / figure.unit);
}

std::string change_text(const std::string& name, const std::optional<double>& change) {
  if (!change) return "-";
  const std::string size = amount(name, std::abs(*change));
  if (size == amount(name, 0)) return "unchanged";
  return fmt::format("{} {}", size, *change > 0 ? "worse" : "better");
}

std::string interval_text(const FigureVerdict& figure) {
  if (!figure.change_low || !figure.change_high || *figure.change_low == *figure.change_high)
    return "";
  double low = *figure.change_low, high = *figure.change_high;
  if (figure.change.value_or(0) < 0) std::tie(low, high) = std::pair(-high, -low);
  const auto signed_amount = [&](double change) {
    const std::string size = bare_amount(figure.name, change);
    return (change < 0 && size != bare_amount(figure.name, 0) ? "-" : "") + size;
  };
  return fmt::format("{} to {}", signed_amount(low), signed_amount(high));
}

std::string measured_text(const FigureVerdict& figure) {
  return values_text(figure.name, *figure.base_measured, *figure.candidate_measured);
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

std::string change_words(const FigureVerdict& figure) {
  const std::string text = figure.change ? change_text(figure.name, figure.change) : "missing";
  if (!figure.change || gate_figure(figure.name).step_quantile != kMedian ||
      figure.name == kThroughput)
    return figure_heading(figure) + " " + text;
  return text == "unchanged"
             ? "as fast"
             : text.substr(0, text.rfind(' ')) + (*figure.change > 0 ? " slower" : " faster");
}

bool counts(const FigureVerdict& figure) {
  return !gate_figure(figure.name).is(GateFigure::kIndecisive) ||
         figure.verdict != GateVerdict::inconclusive;
}

const FigureVerdict* deciding_figure(const PairVerdict& pair) {
  const auto found = std::ranges::find_if(pair.figures, [&pair](const FigureVerdict& figure) {
    return counts(figure) && figure.verdict == pair.verdict;
  });
  return found == pair.figures.end() ? nullptr : &*found;
}

std::vector<std::string> pair_lines(const PairVerdict& pair) {
  const FigureVerdict* const decided = deciding_figure(pair);
  std::vector<std::string> changed, unchanged, rest = {decided ? advice(*decided) : ""};
  for (const FigureVerdict& figure : pair.figures) {
    if (&figure == decided) continue;
    const std::string change = change_text(figure.name, figure.change);
    const bool is_other = figure.verdict != pair.verdict && figure.verdict != GateVerdict::pass;
    if (!figure.change)
      rest.push_back(finding(figure));
    else if (change == "unchanged" && !is_other)
      unchanged.push_back(figure_heading(figure));
    else
      changed.push_back(
          fmt::format("{} {}{}", figure_heading(figure), change,
                      is_other ? fmt::format(" ({})", to_string(figure.verdict)) : ""));
  }
  rest.push_back(joined(changed, ", "));
  if (!unchanged.empty()) rest.push_back(fmt::format("{} unchanged", fmt::join(unchanged, ", ")));
  std::vector<std::string> lines = {decided ? finding(*decided) : pair.notes.at(0)};
  rest.insert(rest.end(), pair.notes.begin() + (decided ? 0 : 1), pair.notes.end());
  std::erase(rest, "");
  if (!rest.empty()) lines.push_back(joined(rest, "; "));
  return lines;
}

std::vector<std::string> remarks(const GateResult& result) {
  std::vector<std::string> lines = mapped(result.uncompared, [](const UncomparedRuns& runs) {
    return "not compared: " + uncompared_text(runs);
  });
  lines.insert(lines.end(), result.notes.begin(), result.notes.end());
  return lines;
}

TextTable figures_table(const PairVerdict& pair, const GateOptions& options) {
  TextTable table{{{"", "figure", true},
                   {"", "baseline"},
                   {"", "new"},
                   {"", "change"},
                   {"", interval_heading(options)},
                   {"", "allowed"},
                   {"", "verdict", true}}};
  for (const FigureVerdict& figure : pair.figures) {
    table.add_row({figure_heading(figure), figure_text(figure.name, figure.base),
                   figure_text(figure.name, figure.candidate),
                   change_text(figure.name, figure.change), interval_text(figure),
                   amount(figure.name, figure.minimum_effect),
                   std::string(to_string(figure.verdict))});
  }
  return table;
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

}  // namespace ddpbench::report
