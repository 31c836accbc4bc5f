// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The columns of condensed rows (metrics/condensed_rows.h): how many repetitions there are, and how
// far step, speed-up and efficiency reach over them.
#include <fmt/format.h>

#include "reports/metrics/condensed_rows.h"
#include "reports/metrics/metrics.h"
#include "reports/table/column_makers.h"
#include "reports/table/run_columns.h"

namespace ddpbench::report {
namespace {

constexpr const char* kOneRepetition = "one repetition: the noise is unknown";

struct SpreadColumn {
  Heading heading;
  const char* low_key;
  const char* high_key;
  Format format;
  MedianSpread RepeatedRuns::*spread;
  Figure (*middle)(const Run&);
};

FieldValue end_of(const RunRow& row, MedianSpread RepeatedRuns::*spread,
                  Figure MedianSpread::*end) {
  if (row.repeated == nullptr) return {{}, kOneRepetition};
  const Figure& figure = (*row.repeated).*spread.*end;
  if (!figure.value) return {{}, missing_reason(figure, *row.run)};
  return {*figure.value};
}

// "1.88 (1.85..1.90)"; the median alone where nothing is known of the noise.
Column spread_column(const SpreadColumn& about) {
  Column column = heading_only(about.heading);
  constexpr std::string_view kSuffix = "-interval";
  std::string plain(about.heading.name);
  plain.resize(plain.size() - kSuffix.size());
  column.cell = [about, plain](const RunRow& row, Footnotes& notes) {
    const Figure middle = about.middle(*row.run);
    // The plain column says why a figure is missing, and what a speed-up is measured against. The
    // one of the step has the spread of steps in brackets.
    const bool own_text = middle.value && plain == "step";
    const std::string text =
        own_text ? fixed(*middle.value, about.format) : find_column(plain)->cell(row, notes);
    if (!middle.value || row.repeated == nullptr) return text;
    const MedianSpread& spread = (*row.repeated).*about.spread;
    if (!spread.low.value || !spread.high.value) return text;
    return fmt::format("{} ({}..{})", text, fixed(*spread.low.value, about.format),
                       fixed(*spread.high.value, about.format));
  };
  const auto spread = about.spread;
  column.fields = {
      {about.low_key, Role::remark,
       [spread](const RunRow& row) { return end_of(row, spread, &MedianSpread::low); }},
      {about.high_key, Role::remark,
       [spread](const RunRow& row) { return end_of(row, spread, &MedianSpread::high); }}};
  return column;
}

Column count_of_repetitions() {
  Column column = heading_only({"repetitions", "", "reps", "repetitions of the setting"});
  column.key = true;
  column.cell = [](const RunRow& row, Footnotes&) -> std::string {
    if (row.repeated == nullptr) return "1";
    const std::size_t all = row.repeated->runs.size(), timed = row.repeated->timed;
    return timed == all ? std::to_string(all) : fmt::format("{} of {}", timed, all);
  };
  const auto count = [](const RunRow& row) {
    return FieldValue{
        static_cast<std::int64_t>(row.repeated == nullptr ? 1 : row.repeated->runs.size())};
  };
  const auto timed = [](const RunRow& row) -> FieldValue {
    if (row.repeated != nullptr) return {static_cast<std::int64_t>(row.repeated->timed)};
    return {std::int64_t{row.run->status == Status::ok && row.run->step.time_s ? 1 : 0}};
  };
  const auto kind = [](const RunRow& row) -> FieldValue {
    if (row.repeated == nullptr || row.repeated->step_s.kind == SpreadKind::none) {
      return {{}, kOneRepetition};
    }
    return {std::string(to_string(row.repeated->step_s.kind))};
  };
  column.fields = {{"repetitions", Role::remark, count},
                   {"timed_repetitions", Role::remark, timed},
                   {"interval", Role::remark, kind}};
  return column;
}

}  // namespace

std::vector<Column> repetition_columns() {
  return {count_of_repetitions(),
          spread_column({{"step-interval", "step ms", "median (interval)",
                          "step time: median over repetitions and how far they reach"},
                         "step_time_low_s",
                         "step_time_high_s",
                         kMilliseconds,
                         &RepeatedRuns::step_s,
                         [](const Run& run) {
                           return run.step.time_s ? Figure::of(run.step.time_s->median) : Figure{};
                         }}),
          spread_column({{"speedup-interval", "speed-up", "(interval)",
                          "speed-up: median over repetitions and how far they reach"},
                         "speedup_low",
                         "speedup_high",
                         {1, 2},
                         &RepeatedRuns::speedup,
                         [](const Run& run) {
                           return run.scaling ? Figure::of(run.scaling->speedup) : Figure{};
                         }}),
          spread_column({{"efficiency-interval", "eff. %", "(interval)",
                          "efficiency: median over repetitions and how far they reach", true},
                         "efficiency_low",
                         "efficiency_high",
                         kPercentage,
                         &RepeatedRuns::efficiency,
                         [](const Run& run) {
                           return run.scaling ? Figure::of(run.scaling->efficiency) : Figure{};
                         }}),
          spread_column({{"to-accuracy-interval", "to acc. s", "(interval)",
                          "training time to the accuracy: median over repetitions and how far they "
                          "reach"},
                         "time_to_accuracy_low_s",
                         "time_to_accuracy_high_s",
                         kSeconds,
                         &RepeatedRuns::to_accuracy_s,
                         time_to_accuracy})};
}

}  // namespace ddpbench::report
