// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/interruption.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

// What says which file to write: --json, or DDPBENCH_JSON. A trace would have the further runs
// alone, in place of those of the interrupted command.
constexpr std::array kOutputs = {"json", "resume", "trace"};

bool names_output(std::string_view word, std::string_view prefix) {
  return std::ranges::any_of(kOutputs, [&](std::string_view name) {
    return word.starts_with(prefix) &&
           std::ranges::equal(word.substr(prefix.size()), name, {},
                              [](unsigned char c) { return std::tolower(c); });
  });
}

// The variables that stand for options, as a shell takes them before a command.
std::string option_assignments(const std::map<std::string, std::string>& variables) {
  constexpr std::string_view kPrefix = "DDPBENCH_";
  std::string text;
  for (const auto& [name, value] : variables) {
    if (!name.starts_with(kPrefix) || name == "DDPBENCH_FORCE" || names_output(name, kPrefix))
      continue;
    text += name + '=' + shell_quoted(value) + ' ';
  }
  return text;
}

// The command line without the options that say which file to write.
std::vector<std::string> without_output(const std::vector<std::string>& argv) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    const std::size_t equals = word.find('=');
    if (word == "--force") continue;
    if (names_output(std::string_view(word).substr(0, equals), "--")) {
      if (equals == word.npos) ++i;  // its value
      continue;
    }
    kept.push_back(word);
  }
  return kept;
}

// By the name alone: what the other command read there is gone.
bool names_stream(std::string_view path) {
  return path == kStandardStream || path == "/dev/stdin" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

// The file of --config, or of the variable that stands for it.
std::string config_of(const Report& report) {
  constexpr std::string_view kFlag = "--config";
  const auto& argv = report.argv;
  for (std::size_t i = argv.size(); i-- > 1;) {
    if (argv[i].starts_with(std::string(kFlag) + "=")) return argv[i].substr(kFlag.size() + 1);
    if (argv[i - 1] == kFlag) return argv[i];
  }
  const auto variable = report.environment.variables.find("DDPBENCH_CONFIG");
  return variable == report.environment.variables.end() ? "" : variable->second;
}

}  // namespace

std::string beyond_resuming(const Report& report) {
  if (!report.collectives.empty()) return "`ddpbench comm`";
  if (report.tune) return "`ddpbench tune`";
  if (report.argv.size() > 1 && !report.argv[1].starts_with("-")) {
    return fmt::format("`ddpbench {}`", report.argv[1]);
  }
  return report.environment.launcher.empty() ? "" : "ranks that a launcher started";
}

std::string resume_command(const Report& report, const std::string& path) {
  if (report.argv.empty() || !beyond_resuming(report).empty()) return {};
  if (names_stream(config_of(report))) return {};
  std::string text = option_assignments(report.environment.variables);
  for (const std::string& word : without_output(report.argv)) text += shell_quoted(word) + ' ';
  return text + shell_quoted("--resume=" + path);
}

std::string interruption_lines(const Report& report, const std::string& path, int width) {
  if (report.status != Status::interrupted) return {};
  const std::string command = resume_command(report, path);
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  std::string text = wrap(
      printable(fmt::format("{} was interrupted: it lacks the runs that were not made{}", path,
                            command.empty() ? "." : ". This makes them and keeps the others:")),
      columns, 4);
  // In one line, so that it can be copied.
  if (!command.empty()) text += "    " + printable(command) + '\n';
  return text;
}

}  // namespace ddpbench::report
