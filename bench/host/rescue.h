// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Saves results in another place when the intended one, which was usable at the start of a run, is
// gone, full or closed at its end.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ddpbench::bench {

struct Rescue {
  std::string path;     // where the file is
  std::string message;  // why it is not where it was asked for, and where it is
};

// Calls write(path). Where that throws ConfigError, calls it with a free name of the same ending in
// the working directory, then in that for temporary files (TMPDIR). Returns nothing where the first
// call succeeded. Where none does, throws the first error.
std::optional<Rescue> write_or_rescue(const std::string& path,
                                      const std::function<void(const std::string& path)>& write);

}  // namespace ddpbench::bench
