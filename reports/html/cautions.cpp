// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says beside its runs: warnings about its figures, and the conclusion of `ddpbench
// tune`.
#include <fmt/format.h>

#include "reports/html/sections.h"
#include "reports/metrics/tuning.h"
#include "reports/pictures/numbers.h"
#include "reports/table/table_notes.h"

namespace ddpbench::report::html {
namespace {

using pictures::fixed;

// The name of the report, where there are several.
std::string prefix_of(const HtmlInput& input, std::size_t report) {
  return input.reports.size() > 1 ? input.names[report] + ": " : "";
}

std::string role_of(const Tune& tune, std::size_t setting) {
  if (setting == 0) return "the default";
  return tune.candidate == setting ? "best of the screening" : "";
}

// "10.2 (8.1 to 12.0)" for the candidate, which was measured again; else missing.
Cell gain_cell(const Tune& tune, std::size_t setting) {
  if (tune.candidate != setting) return missing_cell();
  if (!tune.gain_ratio.value) return missing_cell(tune.gain_ratio.reason);
  const auto percent = [](const Figure& ratio) {
    return ratio.value ? fixed(100 * *ratio.value, 1) : std::string("?");
  };
  return cell(*tune.gain_ratio.value,
              fmt::format("{} ({} to {})", percent(tune.gain_ratio), percent(tune.gain_low_ratio),
                          percent(tune.gain_high_ratio)));
}

std::vector<Cell> setting_row(const Tune& tune, std::size_t index) {
  const TuneSetting& setting = tune.settings[index];
  const std::string role = role_of(tune, index);
  const auto mebibytes = [](double value) { return cell(value, fmt::format("{}", value)); };
  return {mebibytes(setting.first_bucket_mb),
          mebibytes(setting.bucket_cap_mb),
          cell(setting.overlap ? "on" : "off"),
          cell(setting.buckets, std::to_string(setting.buckets)),
          setting.screening_ratio.value
              ? cell(*setting.screening_ratio.value, fixed(*setting.screening_ratio.value, 3))
              : missing_cell(),
          gain_cell(tune, index),
          role.empty() ? missing_cell("") : cell(role)};
}

Table tune_table(const Tune& tune) {
  Table table{"Settings that tune tried",
              {{"first bucket, MiB"},
               {"bucket cap, MiB"},
               {"overlap", true},
               {"buckets"},
               {"screening", false, "median over rounds of its step time / the default's"},
               {"gain, % (95 % interval)", false, "of step time, in fresh runs of both"},
               {"remark", true}},
              {},
              {}};
  for (std::size_t i = 0; i < tune.settings.size(); ++i) {
    table.rows.push_back(setting_row(tune, i));
  }
  return table;
}

}  // namespace

void write_warnings(Markup& page, const HtmlInput& input) {
  for (const RowWarning& warning : row_warnings(rows_of(input))) {
    page.leaf("p", {{"class", "alert warning"}},
              sentence(to_string(warning, input.reports.size() > 1)));
  }
}

void write_tuning(Markup& page, const HtmlInput& input) {
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const std::optional<Tune>& tune = input.reports[i].tune;
    if (!tune) continue;
    page.leaf("p", {{"class", "lead"}}, prefix_of(input, i) + tune->conclusion);
    write_table(page, tune_table(*tune));
  }
}

}  // namespace ddpbench::report::html
