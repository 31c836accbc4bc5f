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

}  // namespace

// A process's watch and its confirmation, and the connections of its threads to the store.
std::size_t files_of_supervisor(std::size_t ranks, std::size_t open) {
  constexpr std::size_t kPerRank = 4;
  constexpr std::size_t kTemporary = 6;  // the store's own, and files that are read meanwhile
  return open + kTemporary + kPerRank * ranks;
}

// Of each rank: its peers' watches, its buffers that peers map, its connections, and files that
// libraries read.
std::size_t files_of_process(std::size_t ranks, std::size_t per_process, std::size_t inherited) {
  constexpr std::size_t kItsOwn = 14;
  return inherited + per_process * (kItsOwn + ranks);
}

void allow_open_files(std::size_t ranks, std::size_t per_process, std::size_t inherited) {
  const std::size_t needed = std::max(files_of_supervisor(ranks, open_now()),
                                      files_of_process(ranks, per_process, inherited));
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max >= needed) {
    limit.rlim_cur = needed;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  }
  throw UnavailableError(
      fmt::format("{} processes need up to {} open files each, but {} are allowed; raise the limit "
                  "(ulimit -n {})",
                  ranks / per_process, needed, limit.rlim_max, needed));
}

}  // namespace ddpbench::launch
