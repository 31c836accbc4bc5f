// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Built on nlohmann's parser, whose exceptions do not reach the caller. Limits are checked while a
// document is built, because a built one may be walked by recursion.
#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"

namespace ddpbench {
namespace {

using nlohmann::json;

// "line 2, column 10"
std::string line_and_column(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, position);
  const std::size_t last_break = before.rfind('\n');
  return fmt::format("line {}, column {}", 1 + std::ranges::count(before, '\n'),
                     last_break == std::string_view::npos ? position + 1 : position - last_break);
}

// Builds what nlohmann's parser, which does not recurse, reads of `text`. Knows the pointer to the
// current value, and throws a ConfigError at the first fault.
template <typename Json>
class JsonBuilder {
 public:
  JsonBuilder(std::string_view text, const std::string& name, const JsonLimits& limits)
      : text_(text), name_(name), limits_(limits) {}

  Json take() { return std::move(root_); }

  bool null() { return next(nullptr); }
  bool boolean(bool value) { return next(value); }
  bool number_integer(json::number_integer_t value) { return next(value); }
  bool number_unsigned(json::number_unsigned_t value) { return next(value); }
  // Integers beyond 64 bits arrive here too.
  bool number_float(json::number_float_t value, const std::string& literal) {
    next(value);
    if (literal.find_first_of(".eE") != std::string::npos) return true;
    refuse(fmt::format("the integer {} does not fit 64 bits", message_text(literal)));
  }
  bool string(std::string& value) { return next(std::move(value)); }
  bool binary(json::binary_t& /*value*/) { return next(nullptr); }
  bool start_object(std::size_t /*count*/) { return open(Json::object()); }
  bool start_array(std::size_t /*count*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& value) {
    Level& level = levels_.back();
    level.key.reset();
    if (level.value->contains(value)) {
      refuse(fmt::format("the key \"{}\" is there twice", message_text(value)));
    }
    if (level.value->size() == limits_.most_members) {
      refuse(fmt::format("an object of more than {} members", limits_.most_members));
    }
    level.key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    // What stands before it is the place, which is not told of every error.
    const std::string_view what = error.what();
    const std::size_t column = what.find(", column ");
    const std::size_t begin =
        column == std::string_view::npos ? what.find("] ") : what.find(": ", column);
    throw ConfigError(fmt::format("{}: not valid JSON: {}, in {}: {}", name_,
                                  line_and_column(text_, std::max<std::size_t>(position, 1) - 1),
                                  pointer(),
                                  printable(cut_at_character(what.substr(begin + 2), 200))));
  }

 private:
  struct Level {
    Json* value;  // that is built
    std::optional<std::string> key = {};
  };

  std::string pointer() const {
    std::vector<std::string> steps;
    for (const Level& level : levels_) {
      if (level.key) steps.push_back(pointer_step(*level.key));
      if (level.value->is_array() && !level.value->empty()) {
        steps.push_back(std::to_string(level.value->size() - 1));
      }
    }
    return pointer_text(steps);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError(fmt::format("{}: {}: {}", name_, pointer(), why));
  }

  template <typename Value>
  bool next(Value&& value) {
    built_ = &root_;
    if (!levels_.empty()) {
      const Level& level = levels_.back();
      built_ = level.key ? &(*level.value)[*level.key] : &level.value->emplace_back();
    }
    *built_ = std::forward<Value>(value);
    if (++values_ > limits_.most_values) {
      refuse(fmt::format("more than {} values", limits_.most_values));
    }
    return true;
  }
  bool open(Json container) {
    next(std::move(container));
    if (levels_.size() == limits_.deepest) {
      refuse(fmt::format("nested deeper than {} levels", limits_.deepest));
    }
    levels_.push_back({built_});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  const JsonLimits& limits_;
  Json root_;
  Json* built_ = nullptr;  // the last value
  std::vector<Level> levels_;
  std::size_t values_ = 0;
};

}  // namespace

std::string message_text(std::string_view text) {
  constexpr std::size_t kLongest = 60;  // with what follows a value of message_of()
  if (text.size() <= kLongest) return printable(std::string(text));
  return fmt::format("{}... ({} bytes)", printable(std::string(cut_at_character(text, kLongest))),
                     text.size());
}

std::string pointer_step(std::string_view key) {
  return (json::json_pointer() / message_text(key)).to_string().substr(1);
}

std::string pointer_text(const std::vector<std::string>& steps) {
  if (steps.empty()) return "(the whole document)";
  return fmt::format("/{}", fmt::join(steps, "/"));
}

namespace {

template <typename Json>
Json parsed(const std::string& text, const std::string& name, const JsonLimits& limits) {
  if (text.size() > limits.most_bytes) {
    throw ConfigError(fmt::format("{}: larger than {}", name, size_text(limits.most_bytes)));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw ConfigError(fmt::format("{}: it is empty", name));
  }
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {  // the parser's end of a text
    throw ConfigError(
        fmt::format("{}: not valid JSON: {}: a NUL byte", name, line_and_column(text, nul)));
  }
  JsonBuilder<Json> builder(text, name, limits);
  json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace

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
  if (holds) return;
  const std::string found = reader.value().dump(-1, ' ', false, json::error_handler_t::replace);
  reader.fail(fmt::format("{} must be {}, found {}", what, type, message_text(found)));
}

}  // namespace

void JsonReader::expect_object(std::string_view what) const {
  expect(value_->is_object(), *this, what, "an object");
}

void JsonReader::expect_keys(std::string_view what, std::span<const std::string_view> known) const {
  expect_object(what);
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

std::size_t JsonReader::word(std::string_view what, std::span<const std::string_view> known) const {
  const std::string found = string(what);
  const auto at = std::ranges::find(known, found);
  if (at == known.end()) {
    fail(fmt::format("unknown {} \"{}\"{}", what, message_text(found),
                     nearest_or_all(found, known)));
  }
  return static_cast<std::size_t>(at - known.begin());
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
