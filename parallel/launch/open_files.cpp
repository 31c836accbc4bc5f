// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "parallel/comm/store/store.h"

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

// Of each agent: its connection, and those by which it came. Of strangers: as many as the store
// keeps.
std::size_t files_of_listener(std::size_t ranks, std::size_t open) {
  constexpr std::size_t kPerRank = 4;
  constexpr std::size_t kItsOwn = 64;  // data, libraries, the report
  return open + kItsOwn + kPerRank * ranks + comm::kMaxStrangers;
}

void allow_open_files(std::size_t ranks, std::size_t per_process, std::size_t inherited) {
  const std::size_t needed = std::max(files_of_supervisor(ranks, open_now()),
                                      files_of_process(ranks, per_process, inherited));
  const std::size_t allowed = raise_soft_limit(needed);
  if (allowed >= needed) return;
  throw UnavailableError(
      fmt::format("{} processes need up to {} open files each, but {} are allowed; raise the limit "
                  "(ulimit -n {})",
                  ranks / per_process, needed, allowed, needed));
}

void allow_open_files_of_listener(std::size_t ranks) {
  raise_soft_limit(files_of_listener(ranks, open_now()));
}

}  // namespace ddpbench::launch
