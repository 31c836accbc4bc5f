// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads small JSON documents (configurations, networks, headers) strictly. It limits size and depth
// and refuses repeated keys, NUL bytes, and numbers beyond a double or 64 bits. Each error is a
// ConfigError that names file and place. Reports have a reader of their own (reports/json), which
// shares the check of the limits and the words of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/math.h"

namespace ddpbench {

// Text of a file for use in a message: control characters become spaces, and text of more than 60
// bytes ends in "... (N bytes)".
std::string message_text(std::string_view text);
// A key as one step of a JSON pointer (RFC 6901: ~ and / escaped), shortened as by message_text.
std::string pointer_step(std::string_view key);
// The pointer of these steps; "(the whole document)" for none.
std::string pointer_text(const std::vector<std::string>& steps);

struct JsonLimits {
  std::size_t most_bytes = kMiB;        // in the whole text
  std::size_t deepest = 16;             // levels of arrays and objects
  std::size_t most_members = SIZE_MAX;  // of one object
  std::size_t most_values = SIZE_MAX;   // in the whole text
};

// Throws ConfigError for a text that has a fault, is empty or beyond `limits`: "name: not valid
// JSON: line 2, column 10, in /layers/0: why", or "name: /layers/0: why" where a whole value is
// wrong. One pass, without recursion.
nlohmann::json parse_json(const std::string& text, const std::string& name,
                          const JsonLimits& limits = {});
// The same, with the members of objects in their order.
nlohmann::ordered_json parse_ordered_json(const std::string& text, const std::string& name,
                                          const JsonLimits& limits);

// A place in a document.
struct JsonPlace {
  const std::string* document = nullptr;  // its name in messages, which outlives this
  std::string pointer = {};               // empty for the root
  JsonPlace step(std::string_view key) const;
  // Throws ConfigError "file at /layers/2/kernel: message". The root's pointer is "/" there.
  [[noreturn]] void fail(const std::string& message) const;
};

// A value of a document and its place. Each access checks the type and throws a ConfigError that
// names file, JSON pointer, expected type and found value. Does not own the document.
class JsonReader {
 public:
  // `name` stands for the file in messages. `value` and `name` must outlive this object.
  JsonReader(const nlohmann::json& value, const std::string& name)
      : JsonReader(value, JsonPlace{&name}) {}
  JsonReader(const nlohmann::json& value, JsonPlace place)
      : value_(&value), place_(std::move(place)) {}

  const nlohmann::json& value() const { return *value_; }
  const JsonPlace& place() const { return place_; }
  [[noreturn]] void fail(const std::string& message) const { place_.fail(message); }

  void expect_object(std::string_view what) const;
  // An object, of which every key must be one of `known`; the message names the nearest.
  void expect_keys(std::string_view what, std::span<const std::string_view> known) const;
  bool has(std::string_view key) const;
  JsonReader at(std::string_view key) const;  // ConfigError naming the missing key

  std::vector<JsonReader> elements(std::string_view what) const;  // of an array
  // Returns an object's members in the order of their keys.
  std::vector<std::pair<std::string, JsonReader>> members(std::string_view what) const;
  std::string string(std::string_view what) const;
  // The index of a string in `known`; the message names the nearest.
  std::size_t word(std::string_view what, std::span<const std::string_view> known) const;
  bool boolean(std::string_view what) const;
  std::int64_t integer(std::string_view what, std::int64_t least, std::int64_t most) const;
  double number(std::string_view what, double least, double most) const;

 private:
  const nlohmann::json* value_;
  JsonPlace place_;
};

}  // namespace ddpbench
