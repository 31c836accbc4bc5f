// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json_cursor.h"

#include <algorithm>

#include "kernels/runtime/error.h"
#include "reports/json_fields.h"

namespace ddpbench::report {

void JsonCursor::fail(const std::string& what) const {
  const std::string pointer = pointer_.empty() ? "(the whole document)" : pointer_.to_string();
  throw ConfigError(fmt::format("report {}: {}: {}", *file_, pointer, what));
}

void JsonCursor::expect(bool holds, const char* type) const {
  if (!holds) fail(fmt::format("expected {}, found {}", type, value_->type_name()));
}

std::optional<JsonCursor> JsonCursor::find(const std::string& key) const {
  expect(value_->is_object(), "an object");
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonCursor(*found, *file_, pointer_ / key);
}

JsonCursor JsonCursor::at(const std::string& key) const {
  const auto found = find(key);
  if (!found) fail(fmt::format("the key \"{}\" is missing", key));
  return *found;
}

std::vector<JsonCursor> JsonCursor::elements() const {
  expect(value_->is_array(), "an array");
  std::vector<JsonCursor> result;
  result.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) {
    result.push_back(JsonCursor((*value_)[i], *file_, pointer_ / i));
  }
  return result;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  expect(value_->is_object(), "an object");
  std::vector<std::pair<std::string, JsonCursor>> result;
  for (const auto& [key, child] : value_->items()) {
    result.emplace_back(key, JsonCursor(child, *file_, pointer_ / key));
  }
  return result;
}

std::string JsonCursor::text() const {
  expect(value_->is_string(), "a string");
  return value_->get<std::string>();
}

std::string JsonCursor::text_or_empty() const { return is_null() ? std::string() : text(); }

std::string JsonCursor::word(std::span<const std::string_view> allowed) const {
  const std::string found = text();
  if (std::ranges::find(allowed, found) == allowed.end()) {
    fail(fmt::format("\"{}\" is none of: {}", found, fmt::join(allowed, ", ")));
  }
  return found;
}

double JsonCursor::number() const {
  expect(value_->is_number(), "a number");
  return value_->get<double>();
}

bool JsonCursor::boolean() const {
  expect(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

Figure JsonCursor::figure(const std::string& key) const {
  const JsonCursor value = at(key);
  if (!value.is_null()) return Figure::of(value.number());
  return Figure::missing(at(key + kReasonSuffix).text());
}

}  // namespace ddpbench::report
