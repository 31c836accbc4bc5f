// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/elided.h"

#include <vector>

namespace ddpbench::report {
namespace {

// Where its characters begin, and its end.
std::vector<std::size_t> character_places(std::string_view text) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) != 0x80) places.push_back(i);
  }
  places.push_back(text.size());
  return places;
}

}  // namespace

std::string elided(const std::string& text, double width,
                   const std::function<double(std::string_view)>& measure) {
  if (measure(text) <= width) return text;
  const std::vector<std::size_t> places = character_places(text);
  const std::size_t characters = places.size() - 1;
  // Wider by one character at each turn, a third of them before the gap.
  std::string best = "\u2026";
  for (std::size_t kept = 1; kept < characters; ++kept) {
    const std::size_t before = kept / 3, after = kept - before;
    std::string candidate =
        text.substr(0, places[before]) + "\u2026" + text.substr(places[characters - after]);
    if (measure(candidate) > width) break;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace ddpbench::report
