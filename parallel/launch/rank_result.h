// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The result in a rank's area: the rank writes a version while others, also threads of its own
// process, may read another. Private to launch/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddpbench::launch {

struct RankResult {
  std::uint64_t version = 0;  // 0: there is none
  std::string text;
};

// By the rank alone. REQUIRES: the area has room for it.
void write_result(std::byte* area, std::string_view text);
// The result is the newest version, and never parts of two. The call waits for nobody, and it reads
// at most `capacity` bytes.
RankResult read_result(std::byte* area, std::uint64_t capacity);

// Bytes that another thread may be writing, each word of eight of one moment. REQUIRES: a multiple
// of eight of them at such an address.
std::string copy_words(std::byte* from, std::size_t bytes);

}  // namespace ddpbench::launch
