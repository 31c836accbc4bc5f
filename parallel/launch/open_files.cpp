// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/error.h"

namespace ddpbench::launch {
namespace {

std::size_t open_now() {
  std::error_code none;
  const std::filesystem::directory_iterator files("/proc/self/fd", none);
  return none ? 0 : static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// Raises the soft limit so that `needed` files may be open, or as far as the hard limit allows.
// Returns how many may be.
std::size_t raise_soft_limit(std::size_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return needed;
  limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

}  // namespace

void allow_open_files(std::size_t ranks, std::size_t per_process, std::size_t inherited) {
  // The supervisor has for each process its watch, its confirmation, and the connections of its
  // threads to the store. It also has the store's own files, and those that it reads meanwhile.
  const std::size_t supervisor = open_now() + 6 + 4 * ranks;
  // A process has for each of its ranks the peers' watches, the buffers that peers map, its
  // connections, and files that libraries read.
  const std::size_t process = inherited + per_process * (14 + ranks);
  const std::size_t needed = std::max(supervisor, process);
  const std::size_t allowed = raise_soft_limit(needed);
  if (allowed >= needed) return;
  throw UnavailableError(
      fmt::format("{} processes need up to {} open files each, but {} are allowed; raise the limit "
                  "(ulimit -n {})",
                  ranks / per_process, needed, allowed, needed));
}

// It has for each agent its connection and those by which it came; and data, libraries, the report.
void allow_open_files_of_listener(std::size_t ranks) {
  raise_soft_limit(open_now() + 4 * ranks + 64);
}

}  // namespace ddpbench::launch
