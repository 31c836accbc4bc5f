// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Strict JSON access on top of nlohmann::json, without its exceptions reaching the caller.
#include "kernels/nn/model/json_reader.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "base/error.h"
#include "base/nearest_name.h"

namespace ddpbench::nn {
namespace {

// Objects and arrays are cut in messages: the pointer says where to look.
std::string excerpt(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// RFC 6901: "~" and "/" in keys are written "~0" and "~1".
std::string pointer_token(std::string_view key) {
  std::string token;
  for (const char c : key) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

std::string line_and_column(const std::string& text, std::size_t byte) {
  const std::size_t end = std::min(byte > 0 ? byte - 1 : 0, text.size());
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n') + 1;
  const std::size_t start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t column = start == std::string::npos ? end + 1 : end - start;
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace

nlohmann::json parse_json(const std::string& text, const std::string& origin) {
  std::vector<std::set<std::string>> keys;
  const auto check_key = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      throw ConfigError(fmt::format("{}: the key {} stands twice in one object; remove one of them",
                                    origin, parsed.dump()));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check_key);
  } catch (const nlohmann::json::parse_error& error) {
    throw ConfigError(fmt::format("{}: not valid JSON at {}: {}", origin,
                                  line_and_column(text, error.byte), error.what()));
  }
}

void fail_at(const std::string& origin, const std::string& pointer, const std::string& message) {
  throw ConfigError(fmt::format("{} at {}: {}", origin, pointer.empty() ? "/" : pointer, message));
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  if (known.empty()) return "";
  const auto nearest = nearest_name(std::string(name), {known.begin(), known.end()});
  if (nearest) return fmt::format("; did you mean \"{}\"?", *nearest);
  return fmt::format("; known are {}", fmt::join(known, ", "));
}

JsonReader::JsonReader(const nlohmann::json& value, const std::string& origin, std::string pointer)
    : value_(&value), origin_(&origin), pointer_(std::move(pointer)) {}

void JsonReader::fail(const std::string& message) const { fail_at(*origin_, pointer_, message); }

void JsonReader::expect_object(std::string_view what) const {
  if (!value_->is_object())
    fail(fmt::format("{} must be an object, found {}", what, excerpt(*value_)));
}

void JsonReader::expect_keys(std::string_view what, std::span<const std::string_view> known) const {
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail_at(*origin_, pointer_ + "/" + pointer_token(key),
            fmt::format("unknown key \"{}\" in {}{}", key, what, suggestion(key, known)));
  }
}

bool JsonReader::has(std::string_view key) const { return value_->contains(key); }

JsonReader JsonReader::at(std::string_view key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("the key \"{}\" is missing; add it", key));
  return {*found, *origin_, pointer_ + "/" + pointer_token(key)};
}

std::vector<JsonReader> JsonReader::elements(std::string_view what) const {
  if (!value_->is_array())
    fail(fmt::format("{} must be an array, found {}", what, excerpt(*value_)));
  std::vector<JsonReader> result;
  for (std::size_t i = 0; i < value_->size(); ++i) {
    result.emplace_back((*value_)[i], *origin_, fmt::format("{}/{}", pointer_, i));
  }
  return result;
}

std::string JsonReader::string(std::string_view what) const {
  if (!value_->is_string())
    fail(fmt::format("{} must be a string, found {}", what, excerpt(*value_)));
  return value_->get<std::string>();
}

bool JsonReader::boolean(std::string_view what) const {
  if (!value_->is_boolean()) {
    fail(fmt::format("{} must be true or false, found {}", what, excerpt(*value_)));
  }
  return value_->get<bool>();
}

std::int64_t JsonReader::integer(std::string_view what, std::int64_t least) const {
  std::int64_t number = least - 1;
  // Numbers that only fit 64 bits without a sign are stored as such; all are too large here.
  if (value_->is_number_unsigned()) {
    number = static_cast<std::int64_t>(std::min<std::uint64_t>(
        value_->get<std::uint64_t>(), static_cast<std::uint64_t>(kMaxInteger) + 1));
  } else if (value_->is_number_integer()) {
    number = value_->get<std::int64_t>();
  }
  if (number < least || number > kMaxInteger) {
    fail(fmt::format("{} must be a whole number from {} to {}, found {}", what, least, kMaxInteger,
                     excerpt(*value_)));
  }
  return number;
}

}  // namespace ddpbench::nn
