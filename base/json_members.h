// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lets nlohmann's macros, which write and read a struct by one list of its members, handle members
// that may be missing: std::optional as null, Known as [value, reason]. For sources, not for
// headers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "base/known.h"

namespace nlohmann {

template <typename T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& value) {
    if (value) {
      j = *value;
    } else {
      j = nullptr;
    }
  }
  static void from_json(const json& j, std::optional<T>& value) {
    if (j.is_null()) {
      value.reset();
    } else {
      value = j.get<T>();
    }
  }
};

template <typename T>
struct adl_serializer<ddpbench::Known<T>> {
  static void to_json(json& j, const ddpbench::Known<T>& known) {
    j = json::array({json(known.value), json(known.reason)});
  }
  static void from_json(const json& j, ddpbench::Known<T>& known) {
    j.at(0).get_to(known.value);
    j.at(1).get_to(known.reason);
  }
};

}  // namespace nlohmann
