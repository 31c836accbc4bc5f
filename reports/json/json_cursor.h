// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JsonCursor: a JSON value that knows its place, so that every error names the file and the JSON
// pointer. It is cheap to copy and must not outlive its JsonDocument. Private to reports/.
//
// The values that it returns are safe for arithmetic: text is UTF-8 of at most kLongestText bytes,
// integers fit their type and are exact as doubles, numbers are 0 or have a magnitude whose square
// is finite. All functions throw ConfigError for other values.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

class JsonCursor {
 public:
  class Elements;
  class Members;

  // The root of a document. `file` names it in messages and must outlive the cursor.
  JsonCursor(simdjson::dom::element value, const std::string& file) : value_(value), file_(&file) {}

  bool is_null() const { return value_.is_null(); }
  bool is_boolean() const { return value_.is_bool(); }
  bool is_number() const { return value_.is_number(); }

  // The member `key`. Throws when this is no object or lacks the key.
  JsonCursor at(const std::string& key) const;
  // The same, but nothing where the key is missing.
  std::optional<JsonCursor> find(const std::string& key) const;
  // Ranges of JsonCursor, and of pairs of key and JsonCursor.
  Elements elements() const;
  Members members() const;

  std::string text() const;
  std::string text_or_empty() const;  // null gives ""
  std::string text_not_empty() const;
  std::string word(std::span<const std::string_view> allowed) const;
  double number() const;
  double amount() const;                // a number that is not negative
  std::vector<double> amounts() const;  // of an array; fast for millions
  bool boolean() const;
  // An integer between `least` and `most`.
  template <typename T>
  T integer(T least = 0, T most = std::numeric_limits<T>::max()) const {
    return static_cast<T>(integer_between(static_cast<std::int64_t>(least), widened(most)));
  }
  template <typename T>
  T integer_or_zero() const {
    return is_null() ? T{} : integer<T>();
  }
  // The member `key`, with the reason in "<key>_reason" when it is null.
  Figure figure(const std::string& key) const;
  Figure amount_figure(const std::string& key) const;  // not negative
  // The value as compact JSON.
  std::string dump() const;

  // Checks this value and all below it. Throws ConfigError for a key that occurs twice in one
  // object (JSON readers differ in which one they take), for too many members, and for text whose
  // resolved escapes are no UTF-8. Recursive: the document's depth is bounded.
  void check() const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Place;

  JsonCursor(simdjson::dom::element value, const std::string& file,
             std::shared_ptr<const Place> parent, std::string_view key, std::size_t index)
      : value_(value), file_(&file), parent_(std::move(parent)), key_(key), index_(index) {}

  template <typename T>
  static std::int64_t widened(T value) {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value) : kMost;
  }
  std::int64_t integer_between(std::int64_t least, std::int64_t most) const;
  // Why a report may not have `number`; null when it may.
  static const char* unfit(double number, bool negative_too);
  double number_that(bool negative_too) const;
  Figure figure_that(const std::string& key, bool negative_too) const;
  const char* type_name() const;
  void expect(bool holds, const char* type) const;
  JsonCursor element(simdjson::dom::element value, std::size_t index) const;
  const std::shared_ptr<const Place>& place() const;
  std::string pointer() const;

  simdjson::dom::element value_;
  const std::string* file_;
  // One step of the JSON pointer, which is composed only for an error.
  std::shared_ptr<const Place> parent_;         // of the container; null at the root
  std::string_view key_;                        // in an object; without data() in an array
  std::size_t index_ = 0;                       // in an array
  mutable std::shared_ptr<const Place> place_;  // this value's own, made for the first child
};

class JsonCursor::Elements {
 public:
  class Iterator {
   public:
    Iterator(const Elements& range, simdjson::dom::array::iterator at) : range_(&range), at_(at) {}
    JsonCursor operator*() const { return range_->parent_.element(*at_, index_); }
    Iterator& operator++() {
      ++at_;
      ++index_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const Elements* range_;
    simdjson::dom::array::iterator at_;
    std::size_t index_ = 0;
  };

  explicit Elements(JsonCursor parent) : parent_(std::move(parent)), array_(parent_.value_) {}
  Iterator begin() const { return {*this, array_.begin()}; }
  Iterator end() const { return {*this, array_.end()}; }
  std::size_t size() const { return array_.size(); }

 private:
  JsonCursor parent_;
  simdjson::dom::array array_;
};

class JsonCursor::Members {
 public:
  class Iterator {
   public:
    Iterator(const Members& range, simdjson::dom::object::iterator at) : range_(&range), at_(at) {}
    std::pair<std::string, JsonCursor> operator*() const;
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const Members* range_;
    simdjson::dom::object::iterator at_;
  };

  explicit Members(JsonCursor parent) : parent_(std::move(parent)), object_(parent_.value_) {}
  Iterator begin() const { return {*this, object_.begin()}; }
  Iterator end() const { return {*this, object_.end()}; }
  std::size_t size() const { return object_.size(); }

 private:
  JsonCursor parent_;
  simdjson::dom::object object_;
};

}  // namespace ddpbench::report
