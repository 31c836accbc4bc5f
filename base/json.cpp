// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Built on nlohmann's parser, whose exceptions do not reach the caller. A listener checks what it
// builds, because a built document may be walked by recursion.
#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"

namespace ddpbench {
namespace {

using nlohmann::json;

std::string line_and_column(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, position);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t last_break = before.rfind('\n');
  const std::size_t column =
      last_break == std::string_view::npos ? position + 1 : position - last_break;
  return fmt::format("line {}, column {}", line, column);
}

// Listens to nlohmann's parser, which does not recurse. Keeps the pointer to the current value and
// stops at the first fault. Builds the document in `root` unless that is null.
template <typename Json>
class JsonListener {
 public:
  JsonListener(const JsonLimits& limits, Json* root) : limits_(limits), root_(root) {}

  bool null() { return next(nullptr); }
  bool boolean(bool value) { return next(value); }
  bool number_integer(json::number_integer_t value) { return next(value); }
  bool number_unsigned(json::number_unsigned_t value) { return next(value); }
  // Integers beyond 64 bits arrive here too.
  bool number_float(json::number_float_t value, const std::string& literal) {
    if (!next(value)) return false;
    if (literal.find_first_of(".eE") != std::string::npos) return true;
    return refuse(fmt::format("the integer {} does not fit 64 bits", message_text(literal)));
  }
  bool string(std::string& value) { return next(std::move(value)); }
  bool binary(json::binary_t& /*value*/) { return next(nullptr); }
  bool start_object(std::size_t /*count*/) { return open(false); }
  bool start_array(std::size_t /*count*/) { return open(true); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& value) {
    Level& level = levels_.back();
    if (limits_.unique_keys && !level.keys.insert(value).second) {
      level.key.reset();
      return refuse(fmt::format("the key \"{}\" is there twice", message_text(value)));
    }
    if (level.keys.size() > limits_.most_members) {
      level.key.reset();
      return refuse(fmt::format("an object of more than {} members", limits_.most_members));
    }
    level.key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    position_ = position == 0 ? 0 : position - 1;  // the parser counts the wrong byte, too
    const std::string_view what = error.what();
    const std::size_t column = what.find(", column ");
    std::size_t begin =
        column == std::string_view::npos ? what.find("] ") : what.find(": ", column);
    begin = begin == std::string_view::npos ? 0 : begin + 2;
    return refuse(cut(what.substr(begin)));
  }

  // Empty when nothing was wrong.
  const std::string& why() const { return why_; }
  // The position of the byte that was wrong. Not set when a whole value was wrong.
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
    std::set<std::string> keys = {};  // keys before it, where they must be unique
    Json* value = nullptr;            // that is built
  };

  static std::string cut(std::string_view what) {
    constexpr std::size_t kLongest = 300;
    std::string text;
    for (const char c : what.substr(0, kLongest)) text += c >= ' ' && c < '\x7f' ? c : '?';
    return what.size() > kLongest ? text + "..." : text;
  }

  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }
  template <typename Value>
  bool next(Value&& value) {
    if (!levels_.empty()) ++levels_.back().index;
    if (++values_ > limits_.most_values) {
      return refuse(fmt::format("more than {} values", limits_.most_values));
    }
    if (root_ == nullptr) return true;
    if (levels_.empty()) {
      built_ = root_;
    } else {
      Level& level = levels_.back();
      built_ = level.array ? &level.value->emplace_back() : &(*level.value)[*level.key];
    }
    *built_ = std::forward<Value>(value);
    return true;
  }
  bool open(bool array) {
    if (levels_.size() == limits_.deepest) {
      next(nullptr);
      return refuse(fmt::format("nested deeper than {} levels", limits_.deepest));
    }
    if (!next(array ? Json::array() : Json::object())) return false;
    levels_.push_back({.array = array, .value = built_});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  Json* root_;
  Json* built_ = nullptr;  // the last value
  std::vector<Level> levels_;
  std::size_t values_ = 0;
  std::string why_;
  std::optional<std::size_t> position_;
};

// Long values are cut in messages: the pointer says where to look.
std::string excerpt(const json& value) {
  constexpr std::size_t kLongest = kLongestValue - 3;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() <= kLongest) return text;
  return std::string(cut_at_character(text, kLongest)) + "...";
}

}  // namespace

std::string message_text(std::string_view text) {
  constexpr std::size_t kLongest = 60;  // with what follows a value of message_of()
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

namespace {

template <typename Json>
std::optional<JsonFault> listen(std::string_view text, const JsonLimits& limits, Json* root) {
  const std::size_t nul = text.find('\0');  // the parser takes it for the end
  const std::string_view safe = text.substr(0, nul);
  JsonListener<Json> listener(limits, root);
  json::sax_parse(safe.begin(), safe.end(), &listener);
  const std::optional<std::size_t> position = listener.position();
  // Where the text was cut off, its early end is not a fault.
  const bool cut_off = listener.why().empty() || (position && *position >= safe.size());
  if (nul != text.npos && cut_off) return JsonFault{"a NUL byte", listener.pointer(), nul};
  if (listener.why().empty()) return std::nullopt;
  return JsonFault{listener.why(), listener.pointer(), position};
}

template <typename Json>
Json parsed(const std::string& text, const std::string& name, const JsonLimits& limits) {
  if (text.size() > limits.most_bytes) {
    throw ConfigError(fmt::format("{}: larger than {}", name, size_text(limits.most_bytes)));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw ConfigError(fmt::format("{}: it is empty", name));
  }
  Json root;
  if (const auto fault = listen(text, limits, &root)) {
    throw ConfigError(fmt::format("{}: {}", name, to_string(*fault, text)));
  }
  return root;
}

}  // namespace

std::optional<JsonFault> find_json_fault(std::string_view text, const JsonLimits& limits) {
  return listen<json>(text, limits, nullptr);
}

std::string to_string(const JsonFault& fault, std::string_view text) {
  if (!fault.position) return fmt::format("{}: {}", fault.pointer, fault.why);
  return fmt::format("not valid JSON: {}, in {}: {}", line_and_column(text, *fault.position),
                     fault.pointer, fault.why);
}

json parse_json(const std::string& text, const std::string& name, const JsonLimits& limits) {
  return parsed<json>(text, name, limits);
}

nlohmann::ordered_json parse_ordered_json(const std::string& text, const std::string& name,
                                          const JsonLimits& limits) {
  return parsed<nlohmann::ordered_json>(text, name, limits);
}

JsonPlace JsonPlace::step(std::string_view key) const {
  return {document, pointer + "/" + pointer_step(key)};
}

void JsonPlace::fail(const std::string& message) const {
  throw ConfigError(
      fmt::format("{} at {}: {}", *document, pointer.empty() ? "/" : pointer, message));
}

namespace {

void expect(bool holds, const JsonReader& reader, std::string_view what, const std::string& type) {
  if (!holds)
    reader.fail(fmt::format("{} must be {}, found {}", what, type, excerpt(reader.value())));
}

}  // namespace

void JsonReader::expect_object(std::string_view what) const {
  expect(value_->is_object(), *this, what, "an object");
}

void JsonReader::expect_keys(std::string_view what, std::span<const std::string_view> known) const {
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    place_.step(key).fail(fmt::format("unknown key \"{}\" in {}{}", message_text(key), what,
                                      nearest_or_all(key, known)));
  }
}

bool JsonReader::has(std::string_view key) const { return value_->contains(key); }

JsonReader JsonReader::at(std::string_view key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("the key \"{}\" is missing; add it", key));
  return {*found, place_.step(key)};
}

std::vector<JsonReader> JsonReader::elements(std::string_view what) const {
  expect(value_->is_array(), *this, what, "an array");
  std::vector<JsonReader> result;
  for (std::size_t i = 0; i < value_->size(); ++i) {
    result.emplace_back((*value_)[i], place_.step(std::to_string(i)));
  }
  return result;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members(std::string_view what) const {
  expect_object(what);
  std::vector<std::pair<std::string, JsonReader>> result;
  for (const auto& [key, value] : value_->items()) {
    result.emplace_back(key, JsonReader(value, place_.step(key)));
  }
  return result;
}

std::string JsonReader::string(std::string_view what) const {
  expect(value_->is_string(), *this, what, "a string");
  return value_->get<std::string>();
}

bool JsonReader::boolean(std::string_view what) const {
  expect(value_->is_boolean(), *this, what, "true or false");
  return value_->get<bool>();
}

std::int64_t JsonReader::integer(std::string_view what, std::int64_t least,
                                 std::int64_t most) const {
  // The parser stores non-negative integers as unsigned.
  const bool fits =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() || std::in_range<std::int64_t>(value_->get<std::uint64_t>()));
  const std::int64_t number = fits ? value_->get<std::int64_t>() : 0;
  expect(fits && number >= least && number <= most, *this, what,
         fmt::format("a whole number from {} to {}", least, most));
  return number;
}

double JsonReader::number(std::string_view what, double least, double most) const {
  expect(value_->is_number() && value_->get<double>() >= least && value_->get<double>() <= most,
         *this, what, fmt::format("a number from {} to {}", least, most));
  return value_->get<double>();
}

}  // namespace ddpbench
