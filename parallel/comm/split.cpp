// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddpbench::comm {

SplitPart choose_part(int rank, int color, int key, const TextExchange& exchange) {
  const std::vector<std::string> choices = exchange(fmt::format("{} {}", color, key));
  SplitPart part;
  if (color < 0) return part;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int peer = 0; peer < static_cast<int>(choices.size()); ++peer) {
    const std::string& choice = choices[static_cast<std::size_t>(peer)];
    const std::size_t space = choice.find(' ');
    if (std::stoi(choice.substr(0, space)) != color) continue;
    members.emplace_back(std::stoi(choice.substr(space + 1)), peer);
  }
  std::ranges::sort(members);
  for (const auto& [member_key, peer] : members) {
    if (peer == rank) part.rank = part.size();
    part.members.push_back(peer);
  }
  return part;
}

}  // namespace ddpbench::comm
