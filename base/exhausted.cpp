// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/exhausted.h"

#include <sys/resource.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace ddpbench {
namespace {

// "15", or "an unknown number of".
std::string limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "an unknown number of";
  }
  return std::to_string(limit.rlim_cur);
}

Failure unavailable(const std::string& message) {
  const UnavailableError error(message);
  return {error.kind(), message, error.exit_code()};
}

}  // namespace

std::string exhausted_limit(int error) {
  switch (error) {
    case EMFILE:
      return fmt::format("no more than {} files may be open in a process; raise that (ulimit -n)",
                         limit_of(RLIMIT_NOFILE));
    case ENFILE:
      return "no more files may be open in the whole system (fs.file-max)";
    case EAGAIN:
      return fmt::format(
          "no more processes and threads may be started, {} by one user (ulimit -u), or the limit "
          "of the control group or the system is reached (pids.max, kernel.threads-max)",
          limit_of(RLIMIT_NPROC));
    case ENOMEM:
      return "there is no memory left for it: the machine's, the control group's, or this "
             "process's (ulimit -v)";
    case EFBIG:
      return fmt::format("a file may have {} bytes; raise that (ulimit -f)",
                         limit_of(RLIMIT_FSIZE));
    default:
      return "";
  }
}

Failure failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {known->kind(), known->what(), known->exit_code()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return unavailable(exhausted_limit(ENOMEM));
  }
  if (const auto* of_system = dynamic_cast<const std::system_error*>(&error)) {
    const std::string limit = exhausted_limit(of_system->code().value());
    if (!limit.empty()) return unavailable(fmt::format("{}: {}", error.what(), limit));
  }
  return {"internal", error.what(), 1};
}

}  // namespace ddpbench
