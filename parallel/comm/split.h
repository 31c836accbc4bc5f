// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How ranks split a communicator (Communicator::split): each learns which ranks have its colour.
// What connects the ranks of a part is each backend's own.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ddpbench::comm {

// A blocking all-gather of short texts over the communicator that is split, [rank].
using TextExchange = std::function<std::vector<std::string>(const std::string&)>;

struct SplitPart {
  std::vector<int> members;  // ranks of the old communicator, ordered by (key, rank)
  int rank = 0;              // of this process in the new communicator

  int size() const noexcept { return static_cast<int>(members.size()); }
  bool leads() const noexcept { return size() > 0 && rank == 0; }
};

// Collective. This rank's part of the split; empty for a negative colour.
SplitPart choose_part(int rank, int color, int key, const TextExchange& exchange);

}  // namespace ddpbench::comm
