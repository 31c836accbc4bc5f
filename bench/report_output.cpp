// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/report_output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "bench/build_info.h"
#include "bench/environment_capture.h"
#include "kernels/ops/backend.h"
#include "reports/metrics.h"

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

// 0 (no limit) when stdout is no terminal.
int terminal_width() {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

}  // namespace

std::string choose_report_path(const Options& options) {
  const std::string path = options.json_path.empty()
                               ? "ddpbench-" + utc_now("%Y%m%dT%H%M%SZ") + ".json"
                               : options.json_path;
  report::check_report_path(path, options.force);
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

void finish_report(report::Report& report, const Options& options, const std::string& path) {
  report.environment = capture_environment(process_variables(), ops::library_versions());
  report.finished_at = utc_now("%Y-%m-%dT%H:%M:%SZ");
  report::fill_scaling(report);
  report::write_report(report, path, options.force);
  if (!options.quiet) fmt::print("\n{}\n", report::render_table(report, terminal_width()));
  fmt::print("report: {}\n", path);
}

}  // namespace ddpbench::bench
