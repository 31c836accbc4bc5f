// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The width of text in a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

#include "base/text.h"

namespace ddpbench::report::test {

// The columns of the longest line.
inline std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    longest = std::max(longest, display_width(line));
  }
  return longest;
}

}  // namespace ddpbench::report::test
