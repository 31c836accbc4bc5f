// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ddpbench::report {
namespace {

std::string scalar_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void append(std::string& text, const nlohmann::ordered_json& value, std::size_t indent) {
  const bool numbers = value.is_array() && std::ranges::all_of(value, [](const auto& child) {
                         return child.is_number();
                       });
  if (numbers) {
    // Dumps the whole list at once: one text for each of millions of numbers takes several times
    // as long.
    for (const char c : value.dump()) {
      text += c;
      if (c == ',') text += ' ';
    }
    return;
  }
  if (!value.is_structured() || value.empty()) {
    text += scalar_text(value);
    return;
  }
  const bool object = value.is_object();
  const char* separator = object ? "{\n" : "[\n";
  for (auto child = value.begin(); child != value.end(); ++child) {
    text += separator;
    text.append(indent + 2, ' ');
    if (object) text += scalar_text(child.key()) + ": ";
    append(text, *child, indent + 2);
    separator = ",\n";
  }
  text += '\n';
  text.append(indent, ' ');
  text += object ? '}' : ']';
}

}  // namespace

std::string json_text(const nlohmann::ordered_json& value) {
  std::string text;
  append(text, value, 0);
  return text + '\n';
}

}  // namespace ddpbench::report
