// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace ddpbench {
namespace {

bool continues_character(char c) { return (c & 0xC0) == 0x80; }

// The positions where the characters begin, and where the last one ends.
std::vector<std::size_t> character_places(std::string_view text) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!continues_character(text[i])) places.push_back(i);
  }
  places.push_back(text.size());
  return places;
}

// Control characters, and those that end a line or turn the direction of what follows.
bool is_control(std::string_view character) {
  constexpr std::pair<std::string_view, std::string_view> kRanges[] = {
      {"", "\x1f"},         {"\x7f", "\u009f"},   {"\u061c", "\u061c"},
      {"\u200e", "\u200f"}, {"\u2028", "\u202e"}, {"\u2066", "\u2069"}};
  return std::ranges::any_of(kRanges, [character](const auto& range) {
    return range.first <= character && character <= range.second;
  });
}

// `text` with what `shown` gives for each of these.
std::string with_controls(std::string_view text,
                          const std::function<std::string(std::string_view)>& shown) {
  std::string result;
  for (std::size_t size = 1; !text.empty(); text.remove_prefix(size)) {
    for (size = 1; size < text.size() && continues_character(text[size]);) ++size;
    const std::string_view character = text.substr(0, size);
    result += is_control(character) ? shown(character) : std::string(character);
  }
  return result;
}

// The end of what begins at `i` in a message: a quoted text, a word, or what separates these.
std::size_t end_of_value(std::string_view text, std::size_t i) {
  constexpr std::string_view kSeparators = " \n/,=:([";
  const char first = text[i];
  if (kSeparators.find(first) != std::string_view::npos) return i + 1;
  for (std::size_t end = i; first == '"' || first == '\'';) {
    end = text.find(first, end + 1);
    if (end == std::string_view::npos) break;
    if (end + 1 == text.size() || std::string_view(" \n.,;:?)]").find(text[end + 1]) != text.npos) {
      return end + 1;
    }
  }
  return std::min(text.find_first_of(kSeparators, i), text.size());
}

constexpr std::string_view kSpaces = " \t\n\v\f\r";

// Whether "5 %" goes on at `text`, which begins with a space: a number keeps its sign.
bool continues_with_percent(std::string_view text) {
  if (!text.starts_with(" %")) return false;
  const std::string_view rest = text.substr(2);
  return rest.empty() || std::string_view(" \t\n,.;:)").find(rest[0]) != std::string_view::npos;
}

// Takes the next word from the front of `text`; empty at the end.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  std::size_t end = std::min(text.find_first_of(kSpaces), text.size());
  if (end > 0 && continues_with_percent(text.substr(end))) {
    end = std::min(text.find_first_of(kSpaces, end + 1), text.size());
  }
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(word.size());
  return word;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the number with which `text` begins.
double take_number(std::string_view& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const char* const stop = std::from_chars(text.data(), end, number, std::chars_format::fixed).ptr;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !continues_character(c); }));
}

std::string printable(std::string_view text) {
  return with_controls(text, [](std::string_view) { return std::string(" "); });
}

std::string message_of(std::string_view text) {
  constexpr std::size_t kLongestMessage = 4000;  // for a value that its own quotes hide
  // "::" at the start of a line commands a CI service.
  const std::string plain = with_controls(text, [&](std::string_view control) {
    if (control == "\n" && (control.end() == text.end() || *control.end() != ':'))
      return std::string(control);
    std::string escaped;
    for (const char c : control) escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return escaped;
  });
  std::string message;
  for (std::size_t i = 0, end = 0; i < plain.size(); i = end) {
    end = end_of_value(plain, i);
    message += elided(plain.substr(i, end - i), kLongestValue, display_width);
  }
  return elided(message, kLongestMessage, display_width);
}

std::string short_list(std::span<const int> numbers) {
  constexpr std::size_t kMost = 10;
  return fmt::format("{}{}", fmt::join(numbers.first(std::min(numbers.size(), kMost)), ", "),
                     numbers.size() > kMost ? " and others" : "");
}

std::string_view cut_at_character(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && continues_character(text[most])) --most;
  return text.substr(0, most);
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent, std::size_t used) {
  std::string result;
  bool line_has_words = false;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    const std::size_t length = display_width(word);
    if (line_has_words && width > 0 && used + 1 + length > width) {
      result.append("\n").append(indent, ' ');
      used = indent;
    } else if (line_has_words) {
      result += ' ';
      ++used;
    }
    result += word;
    used += length;
    line_has_words = true;
  }
  return result + '\n';
}

std::string elided(const std::string& text, double width,
                   const std::function<double(std::string_view)>& measure) {
  if (measure(text) <= width) return text;
  const std::vector<std::size_t> places = character_places(text);
  const std::size_t characters = places.size() - 1;
  // Each turn keeps one character more, a third of them before the gap.
  std::string best = "\u2026";
  for (std::size_t kept = 1; kept < characters; ++kept) {
    const std::size_t before = kept / 3, after = kept - before;
    std::string candidate =
        text.substr(0, places[before]) + "\u2026" + text.substr(places[characters - after]);
    if (measure(candidate) > width) break;
    best = std::move(candidate);
  }
  return best;
}

std::string short_number(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string duration_words(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string size_text(std::size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string shell_quoted(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:=@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += R"('\'')";  // leaves the quotes for one quoted by a backslash
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::strong_ordering natural_order(std::string_view a, std::string_view b) {
  std::string_view left = a, right = b;
  while (!left.empty() && !right.empty()) {
    if (is_digit(left[0]) && is_digit(right[0])) {
      const double first = take_number(left), second = take_number(right);
      if (const auto order = std::strong_order(first, second); std::is_neq(order)) return order;
    } else {
      if (const auto order = left[0] <=> right[0]; std::is_neq(order)) return order;
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  const auto rest = left.size() <=> right.size();
  return std::is_neq(rest) ? rest : a <=> b;
}

}  // namespace ddpbench
