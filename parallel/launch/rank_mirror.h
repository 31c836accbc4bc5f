// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankMirror: what a rank writes into its area of RankChannels, as messages for the channels of
// another host. Records are only ever appended, so each message has what is new.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::launch {

class RankMirror {
 public:
  // `area`: RankChannels::area() of the rank, which may write meanwhile. It outlives this object.
  explicit RankMirror(std::span<std::byte> area) : area_(area) {}

  // What the rank has written since the last call, in messages of some MiB at most. The status
  // comes last, so that its counts never promise records that are not there yet. Never empty.
  std::vector<std::string> take();

 private:
  std::span<std::byte> area_;
  std::array<std::uint64_t, 4> sent_{};  // records of each kind
  // Of the result that was sent last, here and in the other channels. There, versions follow each
  // other without a gap, so that a reader is never overtaken by two.
  std::uint64_t result_version_ = 0, mirrored_version_ = 0;
};

// Writes a message of take() into the area of the same rank in channels of the same layout. To be
// called in the order of the messages. Throws CommError when it does not fit there.
void apply_mirrored(std::string_view message, std::span<std::byte> area);

}  // namespace ddpbench::launch
