// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/json_refusal.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "reports/json/json_limits.h"
#include "reports/json/message_text.h"

namespace ddpbench::report {
namespace {

using PlainJson = nlohmann::json;

// Where nlohmann's parser must stop: it keeps whole tokens, quotes them in its messages, and takes
// a NUL byte for the end.
struct Stop {
  std::size_t position;
  const char* why;
};

bool ends_word(char c) {
  constexpr std::string_view kEnds = "\",:[]{} \t\r\n";
  return c == '\0' || kEnds.find(c) != std::string_view::npos;
}

// Of the string that begins at `begin`: one past its closing quote, the NUL byte in it, or the end.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != '"' && text[at] != '\0') at += text[at] == '\\' ? 2 : 1;
  at = std::min(at, text.size());
  return at < text.size() && text[at] == '"' ? at + 1 : at;
}

std::optional<Stop> first_stop(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\0') return Stop{at, "a NUL byte"};
    const std::size_t begin = at;
    if (text[at] == '"') {
      at = end_of_string(text, begin);
    } else if (ends_word(text[at])) {
      ++at;
    } else {
      while (at < text.size() && !ends_word(text[at])) ++at;
    }
    if (at - begin > kLongestText) return Stop{begin, "a text or number of more than 1 MiB"};
  }
  return std::nullopt;
}

std::string line_and_column(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, position);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t last_break = before.rfind('\n');
  const std::size_t column =
      last_break == std::string_view::npos ? position + 1 : position - last_break;
  return fmt::format("line {}, column {}", line, column);
}

// Listens to nlohmann's parser, which does not recurse when nothing is built. Keeps the pointer of
// the value that it is in, and stops at the first thing that is wrong.
class Listener {
 public:
  bool null() { return next(); }
  bool boolean(bool /*value*/) { return next(); }
  bool number_integer(PlainJson::number_integer_t /*value*/) { return next(); }
  bool number_unsigned(PlainJson::number_unsigned_t /*value*/) { return next(); }
  // Integers beyond 64 bits arrive here too.
  bool number_float(PlainJson::number_float_t /*value*/, const std::string& literal) {
    next();
    if (literal.find_first_of(".eE") != std::string::npos) return true;
    why_ = fmt::format("the integer {} does not fit 64 bits", message_text(literal));
    return false;
  }
  bool string(std::string& /*value*/) { return next(); }
  bool binary(PlainJson::binary_t& /*value*/) { return next(); }
  bool start_object(std::size_t /*size*/) { return open(false); }
  bool start_array(std::size_t /*size*/) { return open(true); }
  bool key(std::string& name) {
    levels_.back().key = name;
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    position_ = position == 0 ? 0 : position - 1;  // it counts the byte that it did not like
    const std::string_view what = error.what();
    const std::size_t column = what.find(", column ");
    std::size_t begin =
        column == std::string_view::npos ? what.find("] ") : what.find(": ", column);
    begin = begin == std::string_view::npos ? 0 : begin + 2;
    why_ = cut(what.substr(begin));
    return false;
  }

  // Empty: nothing was wrong.
  const std::string& why() const { return why_; }
  // Of the byte that was wrong; nothing when a whole value was.
  std::optional<std::size_t> position() const { return position_; }
  std::string pointer() const {
    std::vector<std::string> steps;
    for (const Level& level : levels_) {
      if (level.array && level.index >= 0) steps.push_back(std::to_string(level.index));
      if (!level.array && level.key) steps.push_back(pointer_step(*level.key));
    }
    return pointer_text(steps);
  }

 private:
  struct Level {
    bool array = false;
    std::int64_t index = -1;
    std::optional<std::string> key;
  };

  static std::string cut(std::string_view what) {
    constexpr std::size_t kLongest = 300;
    if (what.size() <= kLongest) return message_text_of(what);
    return message_text_of(what.substr(0, kLongest)) + "...";
  }
  static std::string message_text_of(std::string_view what) {
    std::string text;
    for (const char c : what) text += c >= ' ' && c < '\x7f' ? c : '?';
    return text;
  }

  bool next() {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }
  bool open(bool array) {
    next();
    if (levels_.size() == kDeepest) {
      why_ = fmt::format("nested deeper than {} levels; no report is", kDeepest);
      return false;
    }
    levels_.push_back({array, -1, std::nullopt});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::vector<Level> levels_;
  std::string why_;
  std::optional<std::size_t> position_;
};

}  // namespace

void refuse_json(const std::string& text, const std::string& name, const std::string& why) {
  const std::optional<Stop> stop = first_stop(text);
  const std::string_view safe = std::string_view(text).substr(0, stop ? stop->position : text.npos);
  Listener listener;
  PlainJson::sax_parse(safe.begin(), safe.end(), &listener);
  const std::optional<std::size_t> position = listener.position();
  // Where the text was cut off, that it ends too early is no news.
  if (stop && (listener.why().empty() || position.value_or(0) >= safe.size())) {
    throw ConfigError(fmt::format("report {}: not valid JSON: {}, in {}: {}", name,
                                  line_and_column(text, stop->position), listener.pointer(),
                                  stop->why));
  }
  if (listener.why().empty()) {
    throw ConfigError(fmt::format("report {}: not valid JSON: {}", name, why));
  }
  if (!position) {
    throw ConfigError(fmt::format("report {}: {}: {}", name, listener.pointer(), listener.why()));
  }
  throw ConfigError(fmt::format("report {}: not valid JSON: {}, in {}: {}", name,
                                line_and_column(text, *position), listener.pointer(),
                                listener.why()));
}

}  // namespace ddpbench::report
