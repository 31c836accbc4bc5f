// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/natural_order.h"

#include <algorithm>

namespace ddpbench {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_digit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

// A number of any length, without zeros that do not change its value.
struct Number {
  std::string_view whole, fraction;

  std::strong_ordering operator<=>(const Number& other) const {
    if (const auto order = whole.size() <=> other.whole.size(); std::is_neq(order)) return order;
    if (const auto order = whole <=> other.whole; std::is_neq(order)) return order;
    return fraction <=> other.fraction;
  }
};

Number take_number(std::string_view& text) {
  Number number{take_digits(text), {}};
  number.whole.remove_prefix(std::min(number.whole.find_first_not_of('0'), number.whole.size()));
  if (text.size() < 2 || text[0] != '.' || !is_digit(text[1])) return number;
  text.remove_prefix(1);
  number.fraction = take_digits(text);
  number.fraction = number.fraction.substr(0, number.fraction.find_last_not_of('0') + 1);
  return number;
}

}  // namespace

std::strong_ordering natural_order(std::string_view a, std::string_view b) {
  std::string_view left = a, right = b;
  while (!left.empty() && !right.empty()) {
    if (is_digit(left[0]) && is_digit(right[0])) {
      const Number first = take_number(left), second = take_number(right);
      if (const auto order = first <=> second; std::is_neq(order)) return order;
    } else {
      if (const auto order = left[0] <=> right[0]; std::is_neq(order)) return order;
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  const auto rest = left.size() <=> right.size();
  return std::is_neq(rest) ? rest : a <=> b;
}

}  // namespace ddpbench
