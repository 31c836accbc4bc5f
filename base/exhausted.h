// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Names the limit of the system that an error came from: open files, processes, memory.
// Thread-safe.
#pragma once

#include <cstring>
#include <exception>
#include <string>

#include "base/error.h"

namespace ddpbench {

// Names the limit that an errno value tells of, how high it is, and what raises it: "no more than
// 15 files may be open (ulimit -n)". Empty for other values.
std::string exhausted_limit(int error);

// Throws UnavailableError if the errno value `error` stands for a limit, otherwise `Other`. `what`
// begins the message: "cannot make a pipe".
template <typename Other>
[[noreturn]] void throw_system_error(const std::string& what, int error) {
  const std::string limit = exhausted_limit(error);
  if (!limit.empty()) throw UnavailableError(fmt::format("{}: {}", what, limit));
  throw Other(fmt::format("{}: {}", what, std::strerror(error)));
}

// An exception as reports and the user see it.
struct Failure {
  std::string kind, message;
  int exit_code = 1;
};

// Exceptions of the standard library that tell of a limit (no memory, no thread) are failures like
// UnavailableError. All others that are no Error are internal ones.
Failure failure_of(const std::exception& error);

}  // namespace ddpbench
