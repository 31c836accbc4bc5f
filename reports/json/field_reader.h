// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the fields of a field list (field_lists.h) from a JSON object. field_writer.h has the same
// functions and explains them. Private to reports/.
//
// All functions throw ConfigError with file and JSON pointer: for a missing key, unless it follows
// later(), for a wrong type, and for a value that is not allowed. A null takes its reason from
// "<key>_reason", which must exist.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

class JsonCursor;

class FieldReader {
 public:
  // `object` must outlive this.
  explicit FieldReader(const JsonCursor& object) : object_(object) {}

  FieldReader& later() {
    later_ = true;
    return *this;
  }

  // ---- always there, never null ----
  template <typename T>  // integers are not negative
  void value(const char* key, T& value);
  template <typename T>
  void integer(const char* key, T& value, std::type_identity_t<T> least,
               std::type_identity_t<T> most) {
    value = static_cast<T>(integer_between(key, least, most));
  }
  void name(const char* key, std::string& text);
  void word(const char* key, std::string& text, std::span<const std::string_view> allowed);
  void amount(const char* key, double& number);
  void status(const char* key, Status& status);
  void options(const char* key, std::map<std::string, std::string>& options);
  void values_beside(const char* key, std::map<std::string, double>& numbers,
                     std::map<std::string, std::string>& choices);
  void configuration(const char* key, std::string& text);
  void indices(const char* key, std::vector<std::size_t>& indices, std::size_t count);
  void index_or_null(const char* key, std::optional<std::size_t>& index, std::size_t count);

  // ---- null where it does not apply, without a reason ----
  void text_or_null(const char* key, std::string& text);
  void word_or_null(const char* key, std::string& text, std::span<const std::string_view> allowed);
  template <typename T>
  void or_null(const char* key, std::optional<T>& value);

  // ---- null with a reason ----
  // A text or a count itself shows whether it is known, so the reason is not kept.
  void known_text(const char* key, std::string& text, const std::string& /*fallback*/) {
    text_or_null(key, text);
  }
  template <typename T>
  void known_count(const char* key, T& count, const std::string& /*fallback*/,
                   std::type_identity_t<T> least = 0,
                   std::type_identity_t<T> most = std::numeric_limits<T>::max()) {
    count = static_cast<T>(integer_or_zero(key, static_cast<std::int64_t>(least), widened(most)));
  }
  void count_or_reason(const char* key, std::uint64_t& count, std::string& reason);
  void amount_or_reason(const char* key, double& amount, std::string& reason, double stand_in);
  template <typename T>
  void or_missing(const char* key, std::optional<T>& value, std::string& reason,
                  const std::string& fallback);
  template <typename T>
  void known(const char* key, Known<T>& known, const std::string& fallback) {
    or_missing(key, known.value, known.reason, fallback);
  }
  void known_name(const char* key, Known<std::string>& known, const std::string& fallback);
  // The reason of a null may be missing: the first reports with this key had none.
  void early_flag(const char* key, Known<bool>& known, const std::string& fallback);
  void finite(const char* key, double& number, const std::string& reason);  // null: not a number
  void finite_amount(const char* key, double& number, const std::string& reason);
  void figure(const char* key, Figure& figure, const std::string& fallback);
  void amount_figure(const char* key, Figure& amount, const std::string& fallback);
  void figures(const char* key, std::map<std::string, Figure>& figures, const std::string& fallback,
               std::span<const char* const> required = {});

  // ---- left out where it is not set ----
  template <typename T>
  void optional(const char* key, std::optional<T>& value);
  void optional_text(const char* key, std::string& text);
  void optional_name(const char* key, std::string& text, bool required);
  void optional_flag(const char* key, std::optional<bool>& flag, std::string& reason);
  template <typename T>
  void optional_known(const char* key, Known<T>& known) {
    later().known(key, known, "");
  }
  void optional_figure(const char* key, Figure& amount) { later().amount_figure(key, amount, ""); }

  // ---- objects ----
  template <typename Row, typename List>
  void object(const char* key, Row& row, const List& list) {
    with_object(key, [&](FieldReader& reader) { list(reader, row); });
  }
  template <typename Row, typename List>
  void rows(const char* key, std::vector<Row>& rows, const List& list) {
    with_each(key, [&](FieldReader& reader) { list(reader, rows.emplace_back()); });
  }
  template <typename Row, typename List>
  void optional_rows(const char* key, std::vector<Row>& rows, const List& list) {
    later().rows(key, rows, list);
  }
  template <typename Row, typename List>
  void optional_rows(const char* key, std::vector<Row>& rows, std::string& reason,
                     const List& list) {
    if (!later().is_missing(key, reason)) this->rows(key, rows, list);
  }
  template <typename Row, typename List>
  void optional_object(const char* key, std::optional<Row>& row, const List& list,
                       bool required = false) {
    later_ = !required;
    with_object(key, [&](FieldReader& reader) { list(reader, row.emplace()); });
  }
  template <typename Row, typename List>
  void object_or_null(const char* key, std::optional<Row>& row, const List& list,
                      bool required = false) {
    if (is_null(key) && !required) return;
    with_object(key, [&](FieldReader& reader) { list(reader, row.emplace()); });
  }
  template <typename Row, typename List>
  void object_or_missing(const char* key, std::optional<Row>& row, const List& list,
                         const std::string& /*fallback*/) {
    object_or_null(key, row, list);
  }
  template <typename Row, typename List>
  void object_or_missing(const char* key, std::optional<Row>& row, const List& list,
                         std::string& reason, const std::string& /*fallback*/) {
    if (is_missing(key, reason)) return;
    with_object(key, [&](FieldReader& reader) { list(reader, row.emplace()); });
  }
  template <typename Row, typename List>
  void known_object(const char* key, Known<Row>& known, const List& list,
                    const std::string& fallback) {
    object_or_missing(key, known.value, list, known.reason, fallback);
  }

  template <typename Row, typename List>
  void optional_known_object(const char* key, Known<Row>& known, const List& list) {
    later().known_object(key, known, list, "");
  }

  // Refuses the value of `key`, saying `what`, unless `holds`.
  void require(const char* key, bool holds, const char* what);

 private:
  using Visit = std::function<void(FieldReader& reader)>;

  template <typename T>
  static std::int64_t widened(T value) {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value) : kMost;
  }
  // The value of `key`. Nothing if it is missing after later(), whose effect ends here.
  std::optional<JsonCursor> member(const std::string& key);
  std::int64_t integer_between(const char* key, std::int64_t least, std::int64_t most);
  std::int64_t integer_or_zero(const char* key, std::int64_t least, std::int64_t most);
  // Whether the value is null, or missing after later().
  bool is_null(const char* key);
  // The same; sets `reason` to that of a null.
  bool is_missing(const char* key, std::string& reason);
  void with_object(const char* key, const Visit& visit);
  void with_each(const char* key, const Visit& visit);

  const JsonCursor& object_;
  bool later_ = false;
};

}  // namespace ddpbench::report
