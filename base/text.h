// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Text for people: its width on a terminal, lines that fit, counted nouns. All text is UTF-8.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ddpbench {

// The number of columns on a terminal; each code point counts as one.
std::size_t display_width(std::string_view text);

// `text` with spaces in place of control characters. These would break a table or control the
// terminal.
std::string printable(std::string text);

// The longest beginning of `text` that has at most `most` bytes and ends between two characters.
std::string_view cut_at_character(std::string_view text, std::size_t most);

// The words of `text` on lines of at most `width` columns (0: one line). Lines after the first
// begin with `indent` spaces. The result has no spaces before its first word and ends with a
// newline. `used`: columns of the first line that the caller has filled.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent,
                 std::size_t used = 0);

// `text` itself where it is at most `width` wide by `measure`; otherwise its beginning and its end
// around an ellipsis. The end is twice as long as the beginning, because names differ there.
std::string elided(const std::string& text, double width,
                   const std::function<double(std::string_view)>& measure);

// In the largest binary unit that is exact: "64 MiB", "4 KiB", "1000 B".
std::string size_text(std::size_t bytes);

// "1 core", "2 cores": for nouns whose plural adds an s.
template <typename Count>
std::string counted(Count count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace ddpbench
