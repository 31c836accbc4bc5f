// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/data/report.h"
#include "reports/json/report_json.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"
#include "reports/table/table.h"
#include "tests/fuzz/entries.h"

namespace ddpbench::fuzz {
namespace {

constexpr const char* kName = "input.json";
constexpr std::size_t kLongestMessage = 2500;

// Checks that a message is short, fit for a terminal, and has the file and the place.
void check_message(const std::string& message) {
  ensure(message.starts_with(std::string("report ") + kName + ": "), "no file: {}", message);
  ensure(message.size() <= kLongestMessage, "a message of {} bytes", message.size());
  ensure(std::ranges::none_of(message, [](char c) { return c >= 0 && c < ' '; }),
         "control characters: {}", message);
  const bool place =
      message.find(", column ") != message.npos || message.find(": /") != message.npos ||
      message.find("(the whole document)") != message.npos ||
      message.find("million values") != message.npos || message.ends_with(": it is empty");
  ensure(place, "no place: {}", message);
}

// All that a command may do with a report.
void use(const report::Report& read) {
  for (const int width : {0, 80}) {
    ensure(!report::render_table(read, width).empty(), "an empty table");
  }
  const std::string written = report::to_json(read).dump();
  const std::string again = report::to_json(report::parse_report(written, kName)).dump();
  ensure(written == again, "read again it differs:\n{}\n{}", written, again);
  report::Report compared = read;
  report::fill_scaling(compared);
  report::to_json(compared);
}

}  // namespace

bool report_entry(const std::string& input) {
  report::Report read;
  try {
    read = report::parse_report(input, kName);
  } catch (const ConfigError& error) {
    check_message(error.what());
    return false;
  }
  try {
    use(read);
  } catch (const ConfigError& error) {
    throw InternalError(fmt::format("a report that was read is refused now: {}", error.what()));
  }
  return true;
}

}  // namespace ddpbench::fuzz
