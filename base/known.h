// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A value that may be missing, with the reason.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace ddpbench {

// In JSON a missing value is null beside "<key>_reason", never 0 or -1.
template <typename T>
struct Known {
  std::optional<T> value;
  std::string reason;  // why it is missing; empty beside a value

  static Known of(T v) { return {std::move(v), {}}; }
  static Known missing(std::string why) { return {std::nullopt, std::move(why)}; }
};

}  // namespace ddpbench
