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

bool fits_one_line(const nlohmann::ordered_json& value) {
  return value.empty() ||
         (value.is_array() && std::ranges::all_of(value, [](const nlohmann::ordered_json& child) {
            return child.is_number();
          }));
}

void append(std::string& text, const nlohmann::ordered_json& value, std::size_t indent);

// Dumps the whole list at once: one text for each of millions of numbers takes several times as
// long.
void append_number_list(std::string& text, const nlohmann::ordered_json& list) {
  for (const char c : list.dump()) {
    text += c;
    if (c == ',') text += ' ';
  }
}

void append_lines(std::string& text, const nlohmann::ordered_json& value, std::size_t indent) {
  const bool object = value.is_object();
  text += object ? '{' : '[';
  bool first = true;
  for (auto child = value.begin(); child != value.end(); ++child) {
    text += first ? "\n" : ",\n";
    text.append(indent + 2, ' ');
    if (object) text += scalar_text(child.key()) + ": ";
    append(text, *child, indent + 2);
    first = false;
  }
  text += '\n';
  text.append(indent, ' ');
  text += object ? '}' : ']';
}

void append(std::string& text, const nlohmann::ordered_json& value, std::size_t indent) {
  if (!value.is_structured()) {
    text += scalar_text(value);
  } else if (!fits_one_line(value)) {
    append_lines(text, value, indent);
  } else if (value.is_object()) {
    text += "{}";
  } else {
    append_number_list(text, value);
  }
}

}  // namespace

std::string valid_utf8(const std::string& text) {
  return nlohmann::ordered_json::parse(scalar_text(text)).get<std::string>();
}

std::string json_text(const nlohmann::ordered_json& value) {
  std::string text;
  append(text, value, 0);
  return text + '\n';
}

}  // namespace ddpbench::report
