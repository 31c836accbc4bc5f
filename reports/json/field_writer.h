// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes the fields of a field list (field_lists.h) into a JSON object, in the order of the list.
// Private to reports/.
//
// A value that could not be taken is null beside "<key>_reason", never 0 or "". field_reader.h has
// the same functions for reading; this file explains them for both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "reports/data/report.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {

using Words = std::span<const std::string_view>;

class FieldWriter {
 public:
  // Adds to `object`, which must outlive this.
  explicit FieldWriter(Json& object) : object_(object) {}

  // The next field is newer than the first reports, so readers accept reports without it.
  FieldWriter& later() { return *this; }

  // ---- always present, never null ----
  template <typename T>
  void value(const char* key, const T& value);
  template <typename T>  // between `least` and `most`
  void integer(const char* key, T value, std::type_identity_t<T> /*least*/,
               std::type_identity_t<T> /*most*/) {
    this->value(key, value);
  }
  void name(const char* key, const std::string& text) { value(key, text); }  // not empty
  void word(const char* key, const std::string& text, Words /*allowed*/) { value(key, text); }
  void amount(const char* key, double number) { value(key, number); }  // not negative
  void status(const char* key, Status status);
  // Numbers, "on", "off", "true" and "false" become JSON numbers and booleans.
  void options(const char* key, const std::map<std::string, std::string>& options);
  // All members of the object itself but `key`: numbers, and others as in options().
  void values_beside(const char* key, const std::map<std::string, double>& numbers,
                     const std::map<std::string, std::string>& choices);
  // `text` is a JSON object; an empty text stands for {}. Throws InternalError for other texts.
  void configuration(const char* key, const std::string& text);
  // At least one index; all are below `count`.
  void indices(const char* key, const std::vector<std::size_t>& indices, std::size_t count);
  void index_or_null(const char* key, const std::optional<std::size_t>& index, std::size_t count);

  // ---- null where it does not apply, without a reason ----
  void text_or_null(const char* key, const std::string& text);  // an empty text becomes null
  void word_or_null(const char* key, const std::string& text, Words /*allowed*/) {
    text_or_null(key, text);
  }
  template <typename T>
  void or_null(const char* key, const std::optional<T>& value);

  // ---- null with a reason; `fallback` is the reason where none was recorded ----
  void known_text(const char* key, const std::string& text,
                  const std::string& fallback);  // "": null
  template <typename T>                          // 0: null; otherwise between `least` and `most`
  void known_count(const char* key, T count, const std::string& fallback,
                   std::type_identity_t<T> /*least*/ = 0, std::type_identity_t<T> /*most*/ = 0) {
    known_unsigned(key, static_cast<std::uint64_t>(count), fallback);
  }
  // Null where there is a reason; `count` is then ignored.
  void count_or_reason(const char* key, std::uint64_t count, const std::string& reason);
  // The same; a reader puts `stand_in` in its place.
  void amount_or_reason(const char* key, double amount, const std::string& reason,
                        double /*stand_in*/) {
    reason.empty() ? value(key, amount) : figure(key, Figure::missing(reason), reason);
  }
  template <typename T>
  void or_missing(const char* key, const std::optional<T>& value, const std::string& reason,
                  const std::string& fallback);
  template <typename T>
  void known(const char* key, const Known<T>& known, const std::string& fallback) {
    or_missing(key, known.value, known.reason, fallback);
  }
  void known_name(const char* key, const Known<std::string>& known, const std::string& fallback) {
    this->known(key, known, fallback);  // not empty where it is known
  }
  void early_flag(const char* key, const Known<bool>& known, const std::string& fallback) {
    this->known(key, known, fallback);
  }
  // A number that is not finite becomes null: divergence of the training is an outcome, not a bug.
  void finite(const char* key, double number, const std::string& reason);
  void finite_amount(const char* key, double number, const std::string& reason) {
    finite(key, number, reason);
  }
  // Figures whose keys end in "_bytes" are written as integers.
  void figure(const char* key, const Figure& figure, const std::string& fallback);
  void amount_figure(const char* key, const Figure& amount, const std::string& fallback) {
    figure(key, amount, fallback);
  }
  // An object of amounts. Keys of `required` come first, also if the map lacks them.
  void figures(const char* key, const std::map<std::string, Figure>& figures,
               const std::string& fallback, std::span<const char* const> required = {});

  // ---- left out where not set ----
  template <typename T>
  void optional(const char* key, const std::optional<T>& value) {
    if (value) this->value(key, *value);
  }
  void optional_text(const char* key, const std::string& text);
  void optional_name(const char* key, const std::string& text, bool /*required*/) {
    optional_text(key, text);
  }
  // Left out where there is neither a value nor a reason.
  void optional_flag(const char* key, const std::optional<bool>& flag, const std::string& reason) {
    if (flag || !reason.empty()) or_missing(key, flag, reason, reason);
  }
  template <typename T>
  void optional_known(const char* key, const Known<T>& known) {
    if (known.value || !known.reason.empty()) this->known(key, known, known.reason);
  }
  void optional_figure(const char* key, const Figure& figure) {
    if (figure.value || !figure.reason.empty()) this->figure(key, figure, figure.reason);
  }

  // ---- objects with the fields that `list(writer, row)` names ----
  template <typename Row, typename List>
  void object(const char* key, const Row& row, const List& list) {
    FieldWriter writer(add_object(key));
    list(writer, row);
  }
  template <typename Row, typename List>
  void rows(const char* key, const std::vector<Row>& rows, const List& list) {
    Json& array = add_array(key);
    for (const Row& row : rows) {
      FieldWriter writer(append_object(array));
      list(writer, row);
    }
  }
  template <typename Row, typename List>  // left out where there are no rows
  void optional_rows(const char* key, const std::vector<Row>& rows, const List& list) {
    if (!rows.empty()) this->rows(key, rows, list);
  }
  template <typename Row, typename List>  // null where there is a reason instead
  void optional_rows(const char* key, const std::vector<Row>& rows, const std::string& reason,
                     const List& list) {
    if (rows.empty() && !reason.empty()) missing(key, reason);
    optional_rows(key, rows, list);
  }
  template <typename Row, typename List>
  void optional_object(const char* key, const std::optional<Row>& row, const List& list,
                       bool /*required*/ = false) {
    if (row) object(key, *row, list);
  }
  template <typename Row, typename List>
  void object_or_null(const char* key, const std::optional<Row>& row, const List& list,
                      bool /*required*/ = false) {
    row ? object(key, *row, list) : text_or_null(key, "");
  }
  // Readers do not keep the reason.
  template <typename Row, typename List>
  void object_or_missing(const char* key, const std::optional<Row>& row, const List& list,
                         const std::string& fallback) {
    object_or_missing(key, row, list, std::string(), fallback);
  }
  template <typename Row, typename List>
  void object_or_missing(const char* key, const std::optional<Row>& row, const List& list,
                         const std::string& reason, const std::string& fallback) {
    row ? object(key, *row, list) : known_text(key, "", reason.empty() ? fallback : reason);
  }
  template <typename Row, typename List>
  void known_object(const char* key, const Known<Row>& known, const List& list,
                    const std::string& fallback) {
    object_or_missing(key, known.value, list, known.reason, fallback);
  }

  // Left out where there is neither a value nor a reason.
  template <typename Row, typename List>
  void optional_known_object(const char* key, const Known<Row>& known, const List& list) {
    if (known.value || !known.reason.empty()) known_object(key, known, list, known.reason);
  }

  // A rule that readers check.
  void require(const char* /*key*/, bool /*holds*/, const char* /*what*/) {}

 private:
  void known_unsigned(const char* key, std::uint64_t count, const std::string& fallback);
  void missing(const std::string& key, const std::string& reason);
  void put_figure(const std::string& key, const Figure& figure, const std::string& fallback);
  Json& add_object(const char* key);
  Json& add_array(const char* key);
  static Json& append_object(Json& array);

  Json& object_;
};

}  // namespace ddpbench::report
