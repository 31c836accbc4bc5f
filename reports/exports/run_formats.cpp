// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/run_formats.h"

#include "reports/table/table.h"

namespace ddpbench::report {
namespace {

using RunRows = std::span<const RunRow>;

std::vector<RunFormat> make_formats() {
  return {{"table", "for people", true, false,
           [](RunRows rows, const Columns& columns, int width) {
             return table_text(rows, columns, width);
           }},
          {"markdown", "GitHub's tables", true, false,
           [](RunRows rows, const Columns& columns, int) { return markdown_text(rows, columns); }},
          {"csv", "spreadsheets, RFC 4180", true, true,
           [](RunRows rows, const Columns& columns, int) { return csv_text(rows, columns); }},
          {"json", "an array of flat objects", true, true,
           [](RunRows rows, const Columns& columns, int) { return json_runs_text(rows, columns); }},
          {"github-benchmark", "github-action-benchmark, customSmallerIsBetter", false, true,
           [](RunRows rows, const Columns&, int) {
             return github_benchmark_text(rows, Better::smaller);
           }},
          {"github-benchmark-bigger", "the same, customBiggerIsBetter", false, true,
           [](RunRows rows, const Columns&, int) {
             return github_benchmark_text(rows, Better::bigger);
           }},
          {"bencher", "Bencher's metric format", false, true,
           [](RunRows rows, const Columns&, int) { return bencher_text(rows); }},
          {"prometheus", "Prometheus' textfile collector", false, true,
           [](RunRows rows, const Columns&, int) { return prometheus_text(rows); }},
          {"mllog", "MLPerf's :::MLLOG lines", false, true,
           [](RunRows rows, const Columns&, int) { return mllog_text(rows); }}};
}

}  // namespace

const std::vector<RunFormat>& run_formats() {
  static const std::vector<RunFormat> formats = make_formats();
  return formats;
}

}  // namespace ddpbench::report
