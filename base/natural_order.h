// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which people list names that hold numbers: "batch 8" before "batch 16".
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace ddpbench {

// Compares by characters, and numbers ("8", "0.25"; a sign is no part of one) by their values.
// Texts of which only the spelling of numbers differs ("8" and "08") are ordered by their
// characters.
std::strong_ordering natural_order(std::string_view a, std::string_view b);

// A name that sorts in the natural order.
struct NaturalName {
  std::string text;

  std::strong_ordering operator<=>(const NaturalName& other) const {
    return natural_order(text, other.text);
  }
  bool operator==(const NaturalName&) const = default;
};

}  // namespace ddpbench
