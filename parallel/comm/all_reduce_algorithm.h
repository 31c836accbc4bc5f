// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AllReduceAlgorithm: how an all-reduce moves its data between n ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ddpbench::comm {

enum class AllReduceAlgorithm : std::uint8_t {
  automatic,  // the backend chooses by the number of ranks and bytes
  ring,       // 2 (n - 1) steps; a rank reads from one neighbour only
  direct,     // 2 steps (1 for few bytes); a rank reads from all others at once
};

// The words of options and reports, indexed by the enumerators' numbers.
inline constexpr std::array<std::string_view, 3> kAllReduceAlgorithms = {"auto", "ring", "direct"};

constexpr std::string_view to_string(AllReduceAlgorithm algorithm) {
  return kAllReduceAlgorithms[static_cast<std::size_t>(algorithm)];
}
// REQUIRES: one of kAllReduceAlgorithms; any other word gives `automatic`.
constexpr AllReduceAlgorithm all_reduce_algorithm(std::string_view name) {
  for (std::size_t i = 0; i < kAllReduceAlgorithms.size(); ++i) {
    if (kAllReduceAlgorithms[i] == name) return static_cast<AllReduceAlgorithm>(i);
  }
  return AllReduceAlgorithm::automatic;
}

}  // namespace ddpbench::comm
