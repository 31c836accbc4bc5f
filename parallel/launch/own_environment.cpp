// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/own_environment.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace ddpbench::launch {
namespace {

using Variables = std::map<std::string, std::string>;

// Of a name that stands twice getenv() finds the first, too.
Variables read_environment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::optional<Variables>& kept() {
  static std::optional<Variables> variables;
  return variables;
}

}  // namespace

std::map<std::string, std::string> environment_variables() {
  return kept() ? *kept() : read_environment();
}

std::optional<std::string> environment_variable(const char* name) {
  if (kept()) {
    const auto found = kept()->find(name);
    return found == kept()->end() ? std::nullopt : std::optional(found->second);
  }
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void keep_environment() { kept() = read_environment(); }

}  // namespace ddpbench::launch
