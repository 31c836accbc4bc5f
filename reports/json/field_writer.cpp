// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/field_writer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ddpbench::report {
namespace {

bool is_byte_count(const std::string& key, double value) {
  // All integers below it are exact as doubles.
  constexpr double kExactIntegers = 9007199254740992.0;
  return key.ends_with("_bytes") && value >= 0 && value < kExactIntegers &&
         std::floor(value) == value;
}

// The user types "on" and "25"; JSON has booleans and numbers for them.
Json option_json(const std::string& text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_number() && value.dump() == text) return value;
  return text;
}

}  // namespace

template <typename T>
void FieldWriter::value(const char* key, const T& value) {
  object_[key] = value;
}

template <typename T>
void FieldWriter::or_null(const char* key, const std::optional<T>& value) {
  object_[key] = value ? Json(*value) : Json(nullptr);
}

template <typename T>
void FieldWriter::or_missing(const char* key, const std::optional<T>& value,
                             const std::string& reason, const std::string& fallback) {
  if (value) {
    object_[key] = *value;
  } else {
    missing(key, reason.empty() ? fallback : reason);
  }
}

// The types that field lists use.
template void FieldWriter::value(const char*, const bool&);
template void FieldWriter::value(const char*, const int&);
template void FieldWriter::value(const char*, const std::int64_t&);
template void FieldWriter::value(const char*, const std::uint64_t&);
template void FieldWriter::value(const char*, const double&);
template void FieldWriter::value(const char*, const std::string&);
template void FieldWriter::value(const char*, const std::vector<int>&);
template void FieldWriter::value(const char*, const std::vector<double>&);
template void FieldWriter::value(const char*, const std::vector<std::string>&);
template void FieldWriter::value(const char*, const std::map<std::string, std::string>&);
template void FieldWriter::value(const char*, const std::map<std::string, std::uint64_t>&);
template void FieldWriter::or_null(const char*, const std::optional<bool>&);
template void FieldWriter::or_null(const char*, const std::optional<int>&);
template void FieldWriter::or_null(const char*, const std::optional<std::uint64_t>&);
template void FieldWriter::or_null(const char*, const std::optional<double>&);
template void FieldWriter::or_missing(const char*, const std::optional<bool>&, const std::string&,
                                      const std::string&);
template void FieldWriter::or_missing(const char*, const std::optional<int>&, const std::string&,
                                      const std::string&);
template void FieldWriter::or_missing(const char*, const std::optional<std::int64_t>&,
                                      const std::string&, const std::string&);
template void FieldWriter::or_missing(const char*, const std::optional<std::uint64_t>&,
                                      const std::string&, const std::string&);
template void FieldWriter::or_missing(const char*, const std::optional<std::string>&,
                                      const std::string&, const std::string&);
template void FieldWriter::or_missing(const char*,
                                      const std::optional<std::map<std::string, double>>&,
                                      const std::string&, const std::string&);
template void FieldWriter::or_missing(const char*, const std::optional<DriverBytes>&,
                                      const std::string&, const std::string&);

void FieldWriter::status(const char* key, Status status) { object_[key] = to_string(status); }

void FieldWriter::options(const char* key, const std::map<std::string, std::string>& options) {
  Json& object = add_object(key);
  for (const auto& [name, text] : options) object[name] = option_json(text);
}

void FieldWriter::values_beside(const char*, const std::map<std::string, double>& numbers,
                                const std::map<std::string, std::string>& choices) {
  for (const auto& [name, number] : numbers) object_[name] = number;
  for (const auto& [name, text] : choices) object_[name] = option_json(text);
}

void FieldWriter::configuration(const char* key, const std::string& text) {
  Json value =
      text.empty() ? Json::object() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  ensure(value.is_object(), "the resolved configuration is not a JSON object: {}", text);
  object_[key] = std::move(value);
}

void FieldWriter::indices(const char* key, const std::vector<std::size_t>& indices, std::size_t) {
  object_[key] = indices;
}

void FieldWriter::index_or_null(const char* key, const std::optional<std::size_t>& index,
                                std::size_t) {
  object_[key] = index ? Json(*index) : Json(nullptr);
}

void FieldWriter::text_or_null(const char* key, const std::string& text) {
  object_[key] = text.empty() ? Json(nullptr) : Json(text);
}

void FieldWriter::known_text(const char* key, const std::string& text,
                             const std::string& fallback) {
  if (text.empty()) {
    missing(key, fallback);
  } else {
    object_[key] = text;
  }
}

void FieldWriter::known_unsigned(const char* key, std::uint64_t count,
                                 const std::string& fallback) {
  if (count == 0) {
    missing(key, fallback);
  } else {
    object_[key] = count;
  }
}

void FieldWriter::count_or_reason(const char* key, std::uint64_t count, const std::string& reason) {
  if (reason.empty()) {
    object_[key] = count;
  } else {
    missing(key, reason);
  }
}

void FieldWriter::finite(const char* key, double number, const std::string& reason) {
  if (std::isfinite(number)) {
    object_[key] = number;
  } else {
    missing(key, reason);
  }
}

void FieldWriter::figure(const char* key, const Figure& figure, const std::string& fallback) {
  put_figure(key, figure, fallback);
}

void FieldWriter::put_figure(const std::string& key, const Figure& figure,
                             const std::string& fallback) {
  if (!figure.value) {
    missing(key, figure.reason.empty() ? fallback : figure.reason);
  } else if (is_byte_count(key, *figure.value)) {
    object_[key] = static_cast<std::uint64_t>(*figure.value);
  } else {
    object_[key] = *figure.value;
  }
}

void FieldWriter::figures(const char* key, const std::map<std::string, Figure>& figures,
                          const std::string& fallback, std::span<const char* const> required) {
  FieldWriter writer(add_object(key));
  for (const char* name : required) {
    const auto found = figures.find(name);
    writer.put_figure(name, found == figures.end() ? Figure{} : found->second, fallback);
  }
  for (const auto& [name, figure] : figures) {
    if (std::ranges::find(required, name) == required.end()) {
      writer.put_figure(name, figure, fallback);
    }
  }
}

void FieldWriter::optional_text(const char* key, const std::string& text) {
  if (!text.empty()) object_[key] = text;
}

void FieldWriter::missing(const std::string& key, const std::string& reason) {
  object_[key] = nullptr;
  object_[key + kReasonSuffix] = reason;
}

Json& FieldWriter::add_object(const char* key) { return object_[key] = Json::object(); }

Json& FieldWriter::add_array(const char* key) { return object_[key] = Json::array(); }

Json& FieldWriter::append_object(Json& array) {
  array.push_back(Json::object());
  return array.back();
}

}  // namespace ddpbench::report
