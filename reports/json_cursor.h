// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JsonCursor: a JSON value that knows where it stands, so that every error names file and JSON
// pointer. Private to reports/. A cursor must not outlive its document and file name.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/report.h"

namespace ddpbench::report {

class JsonCursor {
 public:
  using Json = nlohmann::ordered_json;

  JsonCursor(const Json& value, const std::string& file) : value_(&value), file_(&file) {}

  const Json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  // Member of an object. Throws when this is no object or has no such key.
  JsonCursor at(const std::string& key) const;
  // The same, or nothing when it is not there.
  std::optional<JsonCursor> find(const std::string& key) const;
  // Elements of an array; members of an object with their keys.
  std::vector<JsonCursor> elements() const;
  std::vector<std::pair<std::string, JsonCursor>> members() const;

  std::string text() const;
  std::string text_or_empty() const;  // null gives ""
  std::string word(std::span<const std::string_view> allowed) const;
  double number() const;
  bool boolean() const;
  template <typename T>
  T integer() const;
  template <typename T>
  T integer_or_zero() const {
    return is_null() ? T{} : integer<T>();
  }
  // Member `key` with "<key>_reason" when it is null.
  Figure figure(const std::string& key) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  JsonCursor(const Json& value, const std::string& file, Json::json_pointer pointer)
      : value_(&value), file_(&file), pointer_(std::move(pointer)) {}
  void expect(bool holds, const char* type) const;

  const Json* value_;
  const std::string* file_;
  Json::json_pointer pointer_;
};

template <typename T>
T JsonCursor::integer() const {
  expect(value_->is_number_integer(), "an integer");
  // Both checks are needed: numbers above 2^63 are unsigned, negative ones signed.
  if (value_->is_number_unsigned()) {
    const auto number = value_->get<std::uint64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  } else {
    const auto number = value_->get<std::int64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  }
  fail(value_->dump() + " is out of range");
}

}  // namespace ddpbench::report
