// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/interruption.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace ddpbench::report {
namespace {

// The command line without the options that say which file to write.
std::vector<std::string> without_output(const std::vector<std::string>& argv) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word == "--force" || word.starts_with("--json=") || word.starts_with("--resume=")) continue;
    if (word == "--json" || word == "--resume") {
      ++i;  // its value
      continue;
    }
    kept.push_back(word);
  }
  return kept;
}

}  // namespace

std::string resume_command(const Report& report, const std::string& path) {
  const bool other = report.argv.size() > 1 && !report.argv[1].starts_with("-");
  if (other || report.argv.empty() || report.tune || !report.collectives.empty()) return {};
  std::string text;
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
