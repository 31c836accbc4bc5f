// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes of buffers as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace ddpbench::report {

// In the largest unit that is exact: "4 KiB", "1000 B".
std::string size_text(std::uint64_t bytes);

}  // namespace ddpbench::report
