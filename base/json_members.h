// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lets nlohmann's macros, which write and read a struct by one list of its members, handle members
// that may be missing: std::optional as null, Known as [value, reason]; and the bytes of such a
// struct in a rank's channel. For sources, not for headers.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"

namespace nlohmann {

template <typename T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& value) {
    j = value ? json(*value) : json(nullptr);
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

namespace ddpbench {

// CBOR.
template <typename Result>
std::string result_bytes(const Result& result) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(result), bytes);
  return bytes;
}

// The default of a rank that has written none. Throws InternalError where `bytes` are damaged.
template <typename Result>
Result result_of_bytes(const std::string& bytes) {
  if (bytes.empty()) return {};
  try {
    return nlohmann::json::from_cbor(bytes).get<Result>();
  } catch (const nlohmann::json::exception& error) {
    throw InternalError(fmt::format("a rank has damaged its result: {}", error.what()));
  }
}

}  // namespace ddpbench
