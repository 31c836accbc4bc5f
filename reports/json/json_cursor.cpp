// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/json_cursor.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

using simdjson::dom::element_type;

// Beyond these bounds the square of a number or its reciprocal is no finite double. Reports stay
// far below: the largest values are bytes (1e18) and squares of diverged errors (1e38 squared).
constexpr double kLargest = 1e150, kSmallest = 1e-150;

// All integers up to it are exact as doubles, and other JSON readers keep them.
constexpr std::int64_t kLargestInteger = std::int64_t{1} << 53;

}  // namespace

struct JsonCursor::Place {
  std::shared_ptr<const Place> parent;
  std::string_view key;
  std::size_t index;
};

const std::shared_ptr<const JsonCursor::Place>& JsonCursor::place() const {
  // The root has no name. Its children have no parent place, and a pointer of one step.
  if (!place_) place_ = std::make_shared<const Place>(Place{parent_, key_, index_});
  return place_;
}

std::string JsonCursor::pointer() const {
  std::vector<std::string> steps;
  const auto add = [&steps](std::string_view key, std::size_t index) {
    steps.push_back(key.data() == nullptr ? std::to_string(index) : pointer_step(key));
  };
  if (!parent_) return pointer_text({});
  add(key_, index_);
  for (const Place* at = parent_.get(); at->parent; at = at->parent.get()) {
    add(at->key, at->index);
  }
  std::ranges::reverse(steps);
  return pointer_text(steps);
}

void JsonCursor::fail(const std::string& what) const {
  throw ConfigError(fmt::format("report {}: {}: {}", *file_, pointer(), what));
}

const char* JsonCursor::type_name() const {
  switch (value_.type()) {
    case element_type::ARRAY:
      return "array";
    case element_type::OBJECT:
      return "object";
    case element_type::STRING:
      return "string";
    case element_type::BOOL:
      return "boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "number";
  }
}

void JsonCursor::expect(bool holds, const char* type) const {
  if (!holds) fail(fmt::format("expected {}, found {}", type, type_name()));
}

std::optional<JsonCursor> JsonCursor::find(const std::string& key) const {
  expect(value_.is_object(), "an object");
  const simdjson::dom::object object = value_.get_object();
  for (const auto& member : object) {
    if (member.key == key) return JsonCursor(member.value, *file_, place(), member.key, 0);
  }
  return std::nullopt;
}

JsonCursor JsonCursor::at(const std::string& key) const {
  auto found = find(key);
  if (!found) fail(fmt::format("the key \"{}\" is missing", key));
  return *std::move(found);
}

JsonCursor JsonCursor::element(simdjson::dom::element value, std::size_t index) const {
  return {value, *file_, place(), {}, index};
}

JsonCursor::Elements JsonCursor::elements() const {
  expect(value_.is_array(), "an array");
  Elements result(*this);
  if (result.size() > kMostElements) {
    fail(fmt::format("an array of more than {} elements; no report has one here", kMostElements));
  }
  return result;
}

JsonCursor::Members JsonCursor::members() const {
  expect(value_.is_object(), "an object");
  return Members(*this);
}

std::pair<std::string, JsonCursor> JsonCursor::Members::Iterator::operator*() const {
  const auto member = *at_;
  const JsonCursor& parent = range_->parent_;
  return {std::string(member.key),
          JsonCursor(member.value, *parent.file_, parent.place(), member.key, 0)};
}

std::string JsonCursor::text() const {
  expect(value_.is_string(), "a string");
  const std::string_view found = value_.get_string();
  if (found.size() > kLongestText) {
    fail(fmt::format("a string of {} bytes; a report's have at most {}", found.size(),
                     kLongestText));
  }
  return std::string(found);
}

std::string JsonCursor::text_or_empty() const { return is_null() ? std::string() : text(); }

std::string JsonCursor::text_not_empty() const {
  std::string found = text();
  if (found.empty()) fail("expected a text, found an empty string");
  return found;
}

std::string JsonCursor::word(std::span<const std::string_view> allowed) const {
  std::string found = text();
  if (std::ranges::find(allowed, found) == allowed.end()) {
    fail(fmt::format("\"{}\" is none of: {}", message_text(found), fmt::join(allowed, ", ")));
  }
  return found;
}

const char* JsonCursor::unfit(double number, bool negative_too) {
  const double magnitude = std::abs(number);
  if (!negative_too && number < 0) return "negative";
  if (magnitude > kLargest) return "out of range, too large";
  if (magnitude < kSmallest && magnitude > 0) return "out of range, too close to 0";
  return nullptr;
}

double JsonCursor::number_that(bool negative_too) const {
  expect(is_number(), "a number");
  const double found = value_.get_double();
  if (const char* why = unfit(found, negative_too)) fail(fmt::format("{} is {}", dump(), why));
  return found;
}

double JsonCursor::number() const { return number_that(true); }

double JsonCursor::amount() const { return number_that(false); }

std::vector<double> JsonCursor::amounts() const {
  expect(value_.is_array(), "an array");
  const simdjson::dom::array array = value_.get_array();
  std::vector<double> result;
  result.reserve(array.size());
  for (const simdjson::dom::element child : array) {
    double found = 0;
    if (child.get(found) != simdjson::SUCCESS || unfit(found, false) != nullptr) {
      element(child, result.size()).amount();  // throws with the reason
    }
    result.push_back(found);
  }
  return result;
}

bool JsonCursor::boolean() const {
  expect(is_boolean(), "true or false");
  return value_.get_bool();
}

std::int64_t JsonCursor::integer_between(std::int64_t least, std::int64_t most) const {
  expect(value_.is_int64() || value_.is_uint64(), "an integer");
  most = std::min(most, kLargestInteger);
  std::int64_t found = 0;
  if (value_.get(found) == simdjson::SUCCESS && found >= least && found <= most) return found;
  fail(fmt::format("{} is out of range, {} to {}", dump(), least, most));
}

Figure JsonCursor::figure_that(const std::string& key, bool negative_too) const {
  const JsonCursor value = at(key);
  if (!value.is_null()) return Figure::of(value.number_that(negative_too));
  return Figure::missing(at(key + kReasonSuffix).text());
}

Figure JsonCursor::figure(const std::string& key) const { return figure_that(key, true); }

Figure JsonCursor::amount_figure(const std::string& key) const { return figure_that(key, false); }

std::string JsonCursor::dump() const { return simdjson::minify(value_); }

}  // namespace ddpbench::report
