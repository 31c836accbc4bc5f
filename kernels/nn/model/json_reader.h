// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a JSON document strictly: each access checks the type and throws a ConfigError that names
// the file, the JSON pointer, what was expected and what stood there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::nn {

// Parses text. Throws ConfigError naming origin, line and column for malformed JSON, and the key
// for one that stands twice in an object (JSON keeps the last silently).
nlohmann::json parse_json(const std::string& text, const std::string& origin);

// "file at /layers/2/kernel: message", thrown as ConfigError. The root's pointer is "/".
[[noreturn]] void fail_at(const std::string& origin, const std::string& pointer,
                          const std::string& message);

// "; did you mean \"conv2d\"?" or, when none of `known` is near, "; known are conv2d, relu". ""
// when nothing is known.
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

// One value of a document and where it stands. Does not own the document.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& value, const std::string& origin, std::string pointer = "");

  const std::string& pointer() const { return pointer_; }
  [[noreturn]] void fail(const std::string& message) const;

  void expect_object(std::string_view what) const;
  // Every key must be one of `known`; the message names the nearest.
  void expect_keys(std::string_view what, std::span<const std::string_view> known) const;
  bool has(std::string_view key) const;
  JsonReader at(std::string_view key) const;  // ConfigError naming the missing key

  std::vector<JsonReader> elements(std::string_view what) const;  // of an array
  std::string string(std::string_view what) const;
  bool boolean(std::string_view what) const;
  bool is_array() const { return value_->is_array(); }
  // An integer within [least, kMaxInteger].
  std::int64_t integer(std::string_view what, std::int64_t least) const;

  // Above any size of a layer that makes sense, and small enough that products of four fit 128
  // bits.
  static constexpr std::int64_t kMaxInteger = 1 << 20;

 private:
  const nlohmann::json* value_;
  const std::string* origin_;
  std::string pointer_;
};

}  // namespace ddpbench::nn
