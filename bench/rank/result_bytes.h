// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The results of a rank as the bytes in its channel: CBOR of a struct that nlohmann's macros write
// and read. For sources, not for headers.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace ddpbench::bench {

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

}  // namespace ddpbench::bench
