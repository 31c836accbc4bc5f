// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/error.h"

namespace ddpbench {
namespace {

std::string plain(std::string name) {
  for (char& c : name)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, with
// three rows of the usual table.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// Files may hold names of any length, and many of them.
constexpr std::size_t kLongestMeant = 200, kMostListed = 50;

// Part of a name, such as "batch" or "num-gpus", is near however much is missing.
constexpr std::size_t kShortestPart = 4;

// `edits` decide between names that are equally near.
struct Distance {
  std::size_t near = 0, edits = 0;
  auto operator<=>(const Distance&) const = default;
};

Distance distance(const std::string& name, const std::string& known) {
  const std::size_t edits = edit_distance(name, known);
  const bool part =
      std::min(name.size(), known.size()) >= kShortestPart &&
      (known.find(name) != std::string::npos || name.find(known) != std::string::npos);
  return {part ? std::min<std::size_t>(edits, 1) : edits, edits};
}

}  // namespace

std::optional<std::string> nearest_name(const std::string& name,
                                        const std::vector<std::string>& known) {
  if (name.size() > kLongestMeant) return std::nullopt;
  const std::string wanted = plain(name);
  // One slip in three letters is allowed. More would suggest names that share nothing with it.
  const std::size_t limit = std::max<std::size_t>(1, wanted.size() / 3);
  std::optional<std::string> nearest;
  Distance least{limit + 1, 0};
  for (const std::string& candidate : known) {
    const Distance d = distance(wanted, plain(candidate));
    if (d >= least || d.near >= std::max(wanted.size(), candidate.size())) continue;
    least = d;
    nearest = candidate;
  }
  return nearest;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  const auto nearest = nearest_name(name, known);
  return nearest ? " Did you mean '" + *nearest + "'?" : "";
}

void check_word(const std::string& where, const std::string& word,
                const std::vector<std::string>& known) {
  if (std::ranges::find(known, word) != known.end()) return;
  if (known.empty()) throw ConfigError(fmt::format("{}: there is none, got \"{}\".", where, word));
  throw ConfigError(fmt::format("{}: expected one of {}, got \"{}\".{}", where,
                                fmt::join(known, ", "), word, suggestion(word, known)));
}

std::string nearest_or_all(std::string_view name, std::span<const std::string_view> known) {
  if (known.empty()) return "";
  const auto nearest = nearest_name(std::string(name), {known.begin(), known.end()});
  if (nearest) return fmt::format("; did you mean \"{}\"?", *nearest);
  const auto shown = known.first(std::min(known.size(), kMostListed));
  const std::size_t others = known.size() - shown.size();
  return fmt::format("; known are {}{}", fmt::join(shown, ", "),
                     others > 0 ? fmt::format(" and {} more", others) : "");
}

}  // namespace ddpbench
