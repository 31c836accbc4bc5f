// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/message_text.h"

#include <fmt/format.h>

#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kLongest = 100;

}  // namespace

std::string message_text(std::string_view text) {
  if (text.size() <= kLongest) return printable(std::string(text));
  return fmt::format("{}... ({} bytes)", printable(std::string(cut_at_character(text, kLongest))),
                     text.size());
}

std::string pointer_step(std::string_view key) {
  std::string step;
  for (const char c : message_text(key)) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

std::string pointer_text(const std::vector<std::string>& steps) {
  constexpr std::size_t kEnds = 6;
  if (steps.empty()) return "(the whole document)";
  if (steps.size() <= 2 * kEnds) return fmt::format("/{}", fmt::join(steps, "/"));
  const auto begin = steps.begin(), end = steps.end();
  return fmt::format("/{}/... ({} levels) .../{}", fmt::join(begin, begin + kEnds, "/"),
                     steps.size() - 2 * kEnds, fmt::join(end - kEnds, end, "/"));
}

}  // namespace ddpbench::report
