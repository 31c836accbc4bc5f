// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/field_reader.h"

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <utility>

#include "reports/json/json_cursor.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

constexpr std::array<std::string_view, 5> kStatusWords = {"ok", "diverged", "failed", "skipped",
                                                          "interrupted"};
constexpr std::array<Status, 5> kStatuses = {Status::ok, Status::diverged, Status::failed,
                                             Status::skipped, Status::interrupted};

// ---- one value of each type ----

void read(const JsonCursor& from, bool& value) { value = from.boolean(); }
void read(const JsonCursor& from, double& value) { value = from.number(); }
void read(const JsonCursor& from, std::string& value) { value = from.text(); }
void read(const JsonCursor& from, std::vector<double>& value) { value = from.amounts(); }

template <std::integral T>
void read(const JsonCursor& from, T& value) {
  value = from.integer<T>();
}

template <typename T>
void read(const JsonCursor& from, std::vector<T>& values) {
  for (const JsonCursor& element : from.elements()) read(element, values.emplace_back());
}

template <typename T>
void read(const JsonCursor& from, std::map<std::string, T>& values) {
  for (const auto& [key, member] : from.members()) read(member, values[key]);
}

void read(const JsonCursor& from, std::map<std::string, double>& ratios) {
  for (const auto& [key, member] : from.members()) ratios[key] = member.amount();
}

std::string option_text(const JsonCursor& value) {
  if (value.is_boolean()) return value.boolean() ? "on" : "off";
  if (value.is_number()) return value.dump();
  return value.text();
}

std::string reason_of(const std::string& key) { return key + kReasonSuffix; }

}  // namespace

std::optional<JsonCursor> FieldReader::member(const std::string& key) {
  return std::exchange(later_, false) ? object_.find(key) : std::optional(object_.at(key));
}

template <typename T>
void FieldReader::value(const char* key, T& value) {
  if (const auto found = member(key)) read(*found, value);
}

template <typename T>
void FieldReader::or_null(const char* key, std::optional<T>& value) {
  const auto found = member(key);
  if (found && !found->is_null()) read(*found, value.emplace());
}

template <typename T>
void FieldReader::or_missing(const char* key, std::optional<T>& value, std::string& reason,
                             const std::string&) {
  const auto found = member(key);
  if (!found) return;
  if (found->is_null()) {
    reason = object_.at(reason_of(key)).text();
  } else {
    read(*found, value.emplace());
  }
}

template <typename T>
void FieldReader::optional(const char* key, std::optional<T>& value) {
  if (const auto found = object_.find(key)) read(*found, value.emplace());
}

// The types that field lists use.
template void FieldReader::value(const char*, bool&);
template void FieldReader::value(const char*, int&);
template void FieldReader::value(const char*, std::int64_t&);
template void FieldReader::value(const char*, std::uint64_t&);
template void FieldReader::value(const char*, double&);
template void FieldReader::value(const char*, std::string&);
template void FieldReader::value(const char*, std::vector<int>&);
template void FieldReader::value(const char*, std::vector<double>&);
template void FieldReader::value(const char*, std::vector<std::string>&);
template void FieldReader::value(const char*, std::map<std::string, std::string>&);
template void FieldReader::value(const char*, std::map<std::string, std::uint64_t>&);
template void FieldReader::optional(const char*, std::optional<bool>&);
template void FieldReader::or_null(const char*, std::optional<bool>&);
template void FieldReader::or_null(const char*, std::optional<int>&);
template void FieldReader::or_null(const char*, std::optional<std::uint64_t>&);
template void FieldReader::or_null(const char*, std::optional<double>&);
template void FieldReader::or_missing(const char*, std::optional<bool>&, std::string&,
                                      const std::string&);
template void FieldReader::or_missing(const char*, std::optional<int>&, std::string&,
                                      const std::string&);
template void FieldReader::or_missing(const char*, std::optional<std::int64_t>&, std::string&,
                                      const std::string&);
template void FieldReader::or_missing(const char*, std::optional<std::uint64_t>&, std::string&,
                                      const std::string&);
template void FieldReader::or_missing(const char*, std::optional<std::string>&, std::string&,
                                      const std::string&);
template void FieldReader::or_missing(const char*, std::optional<std::map<std::string, double>>&,
                                      std::string&, const std::string&);
template void FieldReader::or_missing(const char*, std::optional<DriverBytes>&, std::string&,
                                      const std::string&);
template void FieldReader::optional(const char*, std::optional<int>&);
template void FieldReader::optional(const char*, std::optional<double>&);

void FieldReader::name(const char* key, std::string& text) {
  if (const auto found = member(key)) text = found->text_not_empty();
}

void FieldReader::word(const char* key, std::string& text,
                       std::span<const std::string_view> allowed) {
  if (const auto found = member(key)) text = found->word(allowed);
}

void FieldReader::amount(const char* key, double& number) {
  if (const auto found = member(key)) number = found->amount();
}

void FieldReader::status(const char* key, Status& status) {
  std::string text;
  word(key, text, kStatusWords);
  std::size_t index = 0;
  while (kStatusWords[index] != text) ++index;
  status = kStatuses[index];
}

void FieldReader::options(const char* key, std::map<std::string, std::string>& options) {
  const auto found = member(key);
  if (!found) return;
  for (const auto& [name, option] : found->members()) options[name] = option_text(option);
}

void FieldReader::values_beside(const char* key, std::map<std::string, double>& numbers,
                                std::map<std::string, std::string>& choices) {
  for (const auto& [name, value] : object_.members()) {
    if (name == key) continue;
    if (value.is_number()) {
      numbers[name] = value.number();
    } else {
      choices[name] = option_text(value);
    }
  }
}

void FieldReader::configuration(const char* key, std::string& text) {
  const auto found = member(key);
  if (!found) return;
  found->members();  // throws unless it is an object
  text = found->dump();
}

void FieldReader::indices(const char* key, std::vector<std::size_t>& indices, std::size_t count) {
  const auto found = member(key);
  if (!found) return;
  for (const JsonCursor& index : found->elements()) {
    indices.push_back(index.integer<std::size_t>());
    if (indices.back() >= count) index.fail(fmt::format("there are {} {}", count, key));
  }
  if (indices.empty()) found->fail("a cell has at least one run");
}

void FieldReader::index_or_null(const char* key, std::optional<std::size_t>& index,
                                std::size_t count) {
  or_null(key, index);
  if (index && *index >= count) object_.at(key).fail(fmt::format("there are {} settings", count));
}

void FieldReader::text_or_null(const char* key, std::string& text) {
  if (const auto found = member(key)) text = found->text_or_empty();
}

void FieldReader::word_or_null(const char* key, std::string& text,
                               std::span<const std::string_view> allowed) {
  const auto found = member(key);
  if (found && !found->is_null()) text = found->word(allowed);
}

void FieldReader::count_or_reason(const char* key, std::uint64_t& count, std::string& reason) {
  const auto found = member(key);
  if (!found) return;
  if (found->is_null()) {
    reason = object_.at(reason_of(key)).text_not_empty();
  } else {
    read(*found, count);
  }
}

void FieldReader::amount_or_reason(const char* key, double& amount, std::string& reason,
                                   double stand_in) {
  const auto found = member(key);
  if (!found) return;
  if (found->is_null()) {
    reason = object_.at(reason_of(key)).text_not_empty();
    amount = stand_in;
  } else {
    amount = found->amount();
  }
}

void FieldReader::known_name(const char* key, Known<std::string>& known, const std::string&) {
  if (!is_missing(key, known.reason)) known.value = object_.at(key).text_not_empty();
}

void FieldReader::early_flag(const char* key, Known<bool>& known, const std::string&) {
  const auto found = member(key);
  if (!found) return;
  if (!found->is_null()) {
    read(*found, known.value.emplace());
  } else if (const auto reason = object_.find(reason_of(key))) {
    known.reason = reason->text_or_empty();
  }
}

void FieldReader::finite(const char* key, double& number, const std::string& reason) {
  Figure found;
  figure(key, found, reason);
  number = found.value.value_or(std::numeric_limits<double>::quiet_NaN());
}

void FieldReader::finite_amount(const char* key, double& number, const std::string& reason) {
  Figure found;
  amount_figure(key, found, reason);
  number = found.value.value_or(std::numeric_limits<double>::quiet_NaN());
}

void FieldReader::figure(const char* key, Figure& figure, const std::string& fallback) {
  std::optional<double> number;
  or_missing(key, number, figure.reason, fallback);
  figure.value = number;
}

void FieldReader::amount_figure(const char* key, Figure& amount, const std::string&) {
  if (is_missing(key, amount.reason)) return;
  amount.value = object_.at(key).amount();
}

void FieldReader::figures(const char* key, std::map<std::string, Figure>& figures,
                          const std::string& fallback, std::span<const char* const> required) {
  const auto found = member(key);
  if (!found) return;
  FieldReader reader(*found);
  for (const auto& [name, figure] : found->members()) {
    if (!name.ends_with(kReasonSuffix)) reader.amount_figure(name.c_str(), figures[name], fallback);
  }
  for (const char* name : required) reader.amount_figure(name, figures[name], fallback);
}

void FieldReader::optional_text(const char* key, std::string& text) {
  if (const auto found = object_.find(key)) text = found->text();
}

void FieldReader::optional_name(const char* key, std::string& text, bool required) {
  later_ = !required;
  name(key, text);
}

void FieldReader::optional_flag(const char* key, std::optional<bool>& flag, std::string& reason) {
  later().or_missing(key, flag, reason, reason);
}

void FieldReader::require(const char* key, bool holds, const char* what) {
  if (!holds) object_.at(key).fail(what);
}

std::int64_t FieldReader::integer_between(const char* key, std::int64_t least, std::int64_t most) {
  const auto found = member(key);
  return found ? found->integer<std::int64_t>(least, most) : 0;
}

std::int64_t FieldReader::integer_or_zero(const char* key, std::int64_t least, std::int64_t most) {
  const auto found = member(key);
  return !found || found->is_null() ? 0 : found->integer<std::int64_t>(least, most);
}

bool FieldReader::is_null(const char* key) {
  const auto found = member(key);
  return !found || found->is_null();
}

bool FieldReader::is_missing(const char* key, std::string& reason) {
  const auto found = member(key);
  if (found && found->is_null()) reason = object_.at(reason_of(key)).text();
  return !found || found->is_null();
}

void FieldReader::with_object(const char* key, const Visit& visit) {
  const auto found = member(key);
  if (!found) return;
  FieldReader reader(*found);
  visit(reader);
}

void FieldReader::with_each(const char* key, const Visit& visit) {
  const auto found = member(key);
  if (!found) return;
  for (const JsonCursor& element : found->elements()) {
    FieldReader reader(element);
    visit(reader);
  }
}

}  // namespace ddpbench::report
