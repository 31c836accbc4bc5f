// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends memory to other hosts through the store, which keeps a few pieces of it at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/math.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::bench {

struct PieceOptions {
  std::size_t piece_bytes = 4 * kMiB;
  std::size_t ahead = 4;   // pieces that the store keeps at most
  double timeout_s = 300;  // of each wait for another process
};

// Returns when all `receivers` have received all of it. A `key` may be used once a store. Throws
// CommTimeout when a receiver does not take a piece.
void send_pieces(comm::Store& store, const std::string& key, std::span<const std::byte> bytes,
                 int receivers, const PieceOptions& options);

// Receives what send_pieces sends, with the same options. Throws CommError when it has another
// length or a piece arrives damaged, CommTimeout when none comes.
void receive_pieces(comm::Store& store, const std::string& key, std::span<std::byte> bytes,
                    int receivers, const PieceOptions& options);

}  // namespace ddpbench::bench
