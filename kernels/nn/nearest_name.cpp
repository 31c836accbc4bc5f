// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Levenshtein distance by the two-row dynamic programme; names are short.
#include "kernels/nn/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace ddpbench::nn {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  std::size_t smallest = std::max<std::size_t>(2, name.size() / 3) + 1;
  std::string_view nearest;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    // A name of which nothing is left is no misspelling.
    if (distance >= smallest || distance >= std::max(name.size(), candidate.size())) continue;
    smallest = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string suggestion(std::string_view name, std::span<const std::string_view> candidates) {
  if (candidates.empty()) return "";
  const std::string_view nearest = nearest_name(name, candidates);
  if (!nearest.empty()) return fmt::format("; did you mean \"{}\"?", nearest);
  return fmt::format("; known are {}", fmt::join(candidates, ", "));
}

}  // namespace ddpbench::nn
