// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/json_document.h"

#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

std::size_t count_marks(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) {
    const int folded = c | 0x20;  // turns [ into { and ] into }
    count += static_cast<std::size_t>((c == ',') | (c == ':') | (folded == '{') | (folded == '}'));
  }
  return count;
}

// These two limits bound simdjson's memory.
void check_size(const std::string& text, const std::string& name) {
  if (text.size() > kLargestReport) {
    throw ConfigError(fmt::format("report {}: larger than {} MiB{}", name, kLargestReport / kMiB,
                                  kNoReportIsLarger));
  }
  if (count_marks(text) > kMostMarks) {
    throw ConfigError(fmt::format(
        "report {}: more than {} million values; a report of 10 million step samples is read, this "
        "is none",
        name, kMostMarks / 1'000'000));
  }
}

// Examines a text that simdjson refused again, slowly, for place and reason. `why`: simdjson's
// words for the case that this finds no fault.
[[noreturn]] void refuse_json(const std::string& text, const std::string& name,
                              const std::string& why) {
  const auto fault = find_json_fault(text, {.most_bytes = kLargestReport,
                                            .deepest = kDeepest,
                                            .longest_text = kLongestText,
                                            .unique_keys = false});
  throw ConfigError(fmt::format("report {}: {}", name,
                                fault ? to_string(*fault, text) : "not valid JSON: " + why));
}

}  // namespace

JsonDocument::JsonDocument(const std::string& text, const std::string& name) : name_(name) {
  check_size(text, name);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw ConfigError(fmt::format("report {}: it is empty", name));
  }
  const std::size_t skipped = text.size() - without_byte_order_mark(text).size();
  simdjson::dom::parser parser;
  simdjson::error_code code = parser.allocate(text.size(), kDeepest);
  if (code == simdjson::SUCCESS) {
    const bool copy = text.capacity() - text.size() < kJsonPadding;
    code = parser.parse_into_document(document_, text.data() + skipped, text.size() - skipped, copy)
               .error();
  }
  if (code == simdjson::MEMALLOC) {
    throw ConfigError(
        fmt::format("report {}: not enough memory to read its {} bytes", name, text.size()));
  }
  if (code != simdjson::SUCCESS) refuse_json(text, name, simdjson::error_message(code));
}

std::string read_report_text(const std::string& path) {
  return read_file(path, {.what = "report ",
                          .most_bytes = kLargestReport,
                          .if_larger = kNoReportIsLarger,
                          .spare_bytes = kJsonPadding,
                          .streams = true});
}

}  // namespace ddpbench::report
