// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/json_fields.h"

#include <cmath>
#include <cstdint>

namespace ddpbench::report {
namespace {

// Largest double below which every integer is one.
constexpr double kExactIntegers = 9007199254740992.0;

bool is_byte_count(const std::string& key, double value) {
  return key.ends_with("_bytes") && value >= 0 && value < kExactIntegers &&
         std::floor(value) == value;
}

}  // namespace

void put_missing(Json& object, const std::string& key, const std::string& reason) {
  object[key] = nullptr;
  object[key + kReasonSuffix] = reason;
}

void put_figure(Json& object, const std::string& key, const Figure& figure,
                const std::string& fallback) {
  if (!figure.value) {
    put_missing(object, key, figure.reason.empty() ? fallback : figure.reason);
  } else if (is_byte_count(key, *figure.value)) {
    object[key] = static_cast<std::uint64_t>(*figure.value);
  } else {
    object[key] = *figure.value;
  }
}

void put_text(Json& object, const std::string& key, const std::string& value,
              const std::string& reason) {
  if (value.empty()) {
    put_missing(object, key, reason);
  } else {
    object[key] = value;
  }
}

Json or_null(const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); }

}  // namespace ddpbench::report
