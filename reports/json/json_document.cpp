// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/json_document.h"

#include <string_view>

#include "base/error.h"
#include "reports/json/json_limits.h"
#include "reports/json/json_refusal.h"

namespace ddpbench::report {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::size_t count_marks(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) {
    const int folded = c | 0x20;  // makes { of [ and } of ]
    count += static_cast<std::size_t>((c == ',') | (c == ':') | (folded == '{') | (folded == '}'));
  }
  return count;
}

// simdjson's memory follows from these two.
void check_size(const std::string& text, const std::string& name) {
  if (text.size() > kLargestReport) refuse_size(name);
  if (count_marks(text) > kMostMarks) {
    throw ConfigError(fmt::format(
        "report {}: more than {} million values; a report of 10 million step samples is read, this "
        "is none",
        name, kMostMarks / 1'000'000));
  }
}

}  // namespace

void refuse_size(const std::string& name) {
  throw ConfigError(
      fmt::format("report {}: larger than {} MiB; a report of 10 million step samples has 220 MB, "
                  "this is none",
                  name, kLargestReport / kMebibyteBytes));
}

JsonDocument::JsonDocument(const std::string& text, const std::string& name) : name_(name) {
  check_size(text, name);
  const std::size_t skipped = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
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

}  // namespace ddpbench::report
