// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that reach their name whole or not at all, for everything that is written from reports.
#pragma once

#include <string>
#include <string_view>

namespace ddpbench::report {

// Writes to a temporary file in the same directory, syncs, renames. Throws ConfigError, leaving
// what was there, when that fails; without `force` also for an existing file, even one that appears
// meanwhile. With `force` a link stays a link and its target is replaced.
void write_file_atomically(const std::string& path, std::string_view text, bool force);

// What write_file_atomically would refuse, before any work is done for it: empty path, existing
// file, absent or unwritable directory, anything but a regular file. Throws ConfigError.
void check_output_path(const std::string& path, bool force);

}  // namespace ddpbench::report
