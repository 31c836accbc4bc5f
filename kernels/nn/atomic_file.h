// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes a whole file or nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddpbench::nn {

// Writes the parts one after the other to a temporary file beside `path`, syncs it and renames it,
// so that a reader sees the old file or the new one. Throws ConfigError naming path and reason; the
// temporary file is then gone.
void write_file_atomically(const std::string& path,
                           const std::vector<std::span<const std::byte>>& parts);

}  // namespace ddpbench::nn
