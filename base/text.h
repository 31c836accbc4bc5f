// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Text for people: its width on a terminal, lines that fit, counted nouns. Text from people:
// numbers, lists, words for a shell. All text is UTF-8.
#pragma once

#include <fmt/format.h>
#include <compare>

#include <charconv>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddpbench {

// The number of columns on a terminal; each code point counts as one.
std::size_t display_width(std::string_view text);

// `text` with spaces in place of control characters, and of those that turn the direction of text.
// These would break a table or control the terminal.
std::string printable(std::string_view text);

// Every message passes this. It writes those characters as "\x1b", but for ends of lines, and shows
// of each value (a quoted text, or a word; each name of a path is one) at most so many characters.
inline constexpr std::size_t kLongestValue = 80;
std::string message_of(std::string_view text);

// "1, 3, 7"; of more than ten numbers the first ten "and others".
std::string short_list(std::span<const int> numbers);

// The longest beginning of `text` that has at most `most` bytes and ends between two characters.
std::string_view cut_at_character(std::string_view text, std::size_t most);

// The words of `text` on lines of at most `width` columns (0: one line). Lines after the first
// begin with `indent` spaces. The result has no spaces before its first word and ends with a
// newline. `used`: columns of the first line that the caller has filled.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent,
                 std::size_t used = 0);

// The columns of text for people where the output has `width` (0: no limit): 100 at most.
constexpr int text_columns(int width) { return width > 0 && width < 100 ? width : 100; }

// `text` itself where it is at most `width` wide by `measure`; otherwise its beginning and its end
// around an ellipsis. The end is twice as long as the beginning, because names differ there.
std::string elided(const std::string& text, double width,
                   const std::function<double(std::string_view)>& measure);

// In the largest binary unit that is exact: "64 MiB", "4 KiB", "1000 B".
std::string size_text(std::size_t bytes);

// A positive number with at least three significant digits, of which at most two are behind the
// point: "9.04", "81.3", "10632".
std::string short_number(double value);
// "45 s", "6 min", "2.5 h".
std::string duration_words(double seconds);

// "core" for 1, "cores" for any other count: for nouns whose plural adds an s.
template <typename Count>
std::string plural(Count count, std::string_view noun) {
  return fmt::format("{}{}", noun, count == 1 ? "" : "s");
}
// "1 core", "2 cores".
template <typename Count>
std::string counted(Count count, std::string_view noun) {
  return fmt::format("{} {}", count, plural(count, noun));
}
// The same of a count that is a text: "1", "2".
inline std::string counted(const std::string& count, std::string_view noun) {
  return fmt::format("{} {}", count, plural(count == "1" ? 1 : 2, noun));
}

// The number that is the whole of `text`, as std::from_chars reads it: in decimal digits, without a
// plus or blanks; for a real T also "inf" and "nan". Nothing for any other text, and where the
// number does not fit T.
template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

// `text` without the byte order mark of UTF-8 with which spreadsheets and some editors begin files.
std::string_view without_byte_order_mark(std::string_view text);

// `text` without the blanks at its two ends. `blanks`: the characters that count as such.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t");

// The parts of `text` around each `separator`; one part more than there are separators.
std::vector<std::string> split(std::string_view text, char separator);

// `text` as one word of a POSIX shell: in quotes where it would otherwise mean anything else.
std::string shell_quoted(std::string_view text);

// ---- the order in which people list names that hold numbers: "batch 8" before "batch 16" ----

// Compares by characters, and numbers ("8", "0.25"; a sign is no part of one) by their values.
// Texts of which only the spelling of numbers differs ("8" and "08") are ordered by their
// characters.
std::strong_ordering natural_order(std::string_view a, std::string_view b);

// A name that sorts in the natural order.
struct NaturalName {
  std::string text;

  std::strong_ordering operator<=>(const NaturalName& other) const {
    return natural_order(text, other.text);
  }
  bool operator==(const NaturalName&) const = default;
};

}  // namespace ddpbench
