// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/font_coverage.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <sstream>

#include "bench/commands/filter_program.h"

namespace ddpbench::bench {
namespace {

constexpr std::chrono::seconds kListDeadline{10};

struct Character {
  std::string bytes;
  char32_t code = 0;
};

// The number of bytes of the UTF-8 character at the beginning of `text`; 0: it is none.
std::size_t character_size(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC2 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  const std::string_view rest = text.substr(1, size == 0 ? 0 : size - 1);
  const bool is_whole = rest.size() + 1 == size && std::ranges::all_of(rest, [](char byte) {
                          return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
                        });
  return is_whole ? size : 0;
}

// Each character beyond ASCII once. Bytes that are no UTF-8 are left out.
std::vector<Character> foreign_characters(std::string_view text) {
  std::vector<Character> characters;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size > 1) {
      char32_t code = static_cast<unsigned char>(text[0]) & (0xFFU >> (size + 1));
      for (const char byte : text.substr(1, size - 1)) {
        code = code << 6U | (static_cast<unsigned char>(byte) & 0x3FU);
      }
      if (std::ranges::count(characters, code, &Character::code) == 0) {
        characters.push_back({std::string(text.substr(0, size)), code});
      }
    }
    text.remove_prefix(std::max<std::size_t>(1, size));
  }
  return characters;
}

// Spaces, joiners and selectors of variants, which draw nothing themselves.
bool is_invisible(char32_t code) {
  return (code >= 0x2000 && code <= 0x200F) || (code >= 0x2028 && code <= 0x202F) ||
         (code >= 0x205F && code <= 0x2060) || code == 0x3000 || (code >= 0xFE00 && code <= 0xFE0F);
}

// `range`: "20-7e" or "a0", in hexadecimal digits.
bool is_within(char32_t code, std::string_view range) {
  const std::size_t dash = range.find('-');
  const auto number = [](std::string_view digits) {
    unsigned value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return value;
  };
  const unsigned first = number(range.substr(0, dash));
  const unsigned last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
  return code >= first && code <= last;
}

}  // namespace

std::vector<std::string> characters_without_font(std::string_view text) {
  std::vector<Character> missing = foreign_characters(text);
  std::erase_if(missing, [](const Character& each) { return is_invisible(each.code); });
  if (missing.empty()) return {};
  // A line of ranges for each font.
  const FilterEnd fonts = run_program({"fc-list", "--format=%{charset}\\n"}, "", kListDeadline);
  if (!fonts.succeeded()) return {};
  std::istringstream ranges(fonts.output);
  for (std::string range; !missing.empty() && ranges >> range;) {
    std::erase_if(missing, [&](const Character& each) { return is_within(each.code, range); });
  }
  std::vector<std::string> characters;
  for (Character& each : missing) characters.push_back(std::move(each.bytes));
  return characters;
}

}  // namespace ddpbench::bench
