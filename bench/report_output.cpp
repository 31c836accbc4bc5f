// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/report_output.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/build_info.h"
#include "bench/environment_capture.h"
#include "bench/run_trace.h"
#include "bench/terminal.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/error.h"
#include "reports/atomic_file.h"
#include "reports/metrics.h"
#include "reports/why.h"

namespace ddpbench::bench {
namespace {

std::string utc_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), format, &utc);
  return text.data();
}

// ddpbench-<UTC time>.json, numbered on when another run of the same second took it.
std::string default_report_path() {
  const std::string stem = "ddpbench-" + utc_now("%Y%m%dT%H%M%SZ");
  std::string path = stem + ".json";
  for (int i = 2; std::filesystem::exists(path); ++i) path = fmt::format("{}-{}.json", stem, i);
  return path;
}

void check_output_file(const std::string& path, const char* option, bool force) {
  try {
    report::check_output_path(path, force);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", option, error.what()));
  }
}

}  // namespace

std::string choose_report_path(const Options& options) {
  const std::string path = options.json_path.empty() ? default_report_path() : options.json_path;
  check_output_file(path, "--json", options.force);
  if (!options.save_model.empty()) {
    check_output_file(options.save_model, "--save-model", options.force);
  }
  if (!options.trace_path.empty()) check_output_file(options.trace_path, "--trace", options.force);
  return path;
}

report::Report begin_report(const Options& options, std::vector<std::string> arguments) {
  report::Report report;
  report.argv = std::move(arguments);
  report.started_at = utc_now("%Y-%m-%dT%H:%M:%SZ");
  report.generator = generator();
  report.config_json = to_json(options).dump();
  return report;
}

void finish_report(report::Report& report, const report::Trace& trace, const Options& options,
                   const std::string& path) {
  report.environment = capture_environment(process_variables(), ops::library_versions());
  report.finished_at = utc_now("%Y-%m-%dT%H:%M:%SZ");
  report::fill_scaling(report);
  report::fill_why(report);
  // The table first: whatever happens to the file, the results were seen.
  fmt::print("\n{}\n", report::render_table(report, terminal_width()));
  const std::string why = report::render_why(report, terminal_width());
  if (!why.empty()) fmt::print("{}\n", why);
  std::fflush(stdout);
  const bool taken = options.json_path.empty() && std::filesystem::exists(path);
  const std::string target = taken ? default_report_path() : path;
  report::write_report(report, target, options.force);
  // The report is there already when the trace cannot be written.
  if (!options.trace_path.empty()) {
    write_trace(trace, options);
    fmt::print("trace: {}\n", options.trace_path);
  }
  fmt::print("report: {}\n", target);
}

}  // namespace ddpbench::bench
