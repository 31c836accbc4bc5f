// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench/options/option_parser.h"

namespace ddpbench::bench {

std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  const auto nearest = nearest_name(name, known);
  return nearest ? fmt::format(" Did you mean '{}'?", *nearest) : "";
}

}  // namespace ddpbench::bench
