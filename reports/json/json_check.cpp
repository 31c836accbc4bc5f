// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JsonCursor::check refuses what a JSON parser accepts and a reader must not.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "reports/json/json_cursor.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

void check_utf8(std::string_view text, const JsonCursor& place) {
  if (!simdjson::validate_utf8(text)) place.fail("an escape in its text is no character");
}

void check_keys(const simdjson::dom::object& object, const JsonCursor& place) {
  if (object.size() > kMostMembers) {
    place.fail(fmt::format("an object of more than {} members; no report has one", kMostMembers));
  }
  std::vector<std::string_view> keys;
  keys.reserve(object.size());
  for (const auto& member : object) keys.push_back(member.key);
  for (const std::string_view key : keys) check_utf8(key, place);
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice != keys.end()) {
    place.fail(fmt::format("the key \"{}\" is there twice", message_text(*twice)));
  }
}

}  // namespace

void JsonCursor::check() const {
  if (value_.is_string()) {
    check_utf8(value_.get_string(), *this);
  } else if (value_.is_object()) {
    check_keys(value_.get_object(), *this);
    for (const auto& [key, member] : members()) member.check();
  } else if (value_.is_array()) {
    std::size_t index = 0;
    for (const simdjson::dom::element child : value_.get_array()) {
      // There may be millions of numbers: they get no cursors.
      if (!child.is_number()) element(child, index).check();
      ++index;
    }
  }
}

}  // namespace ddpbench::report
