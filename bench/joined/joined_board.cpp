// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_board.h"

#include <limits.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

#include "base/error.h"

namespace ddpbench::bench {

namespace {

constexpr std::int32_t kNobody = -1;

void put_if_first(std::atomic<std::int32_t>& place, int rank) {
  std::int32_t nobody = kNobody;
  place.compare_exchange_strong(nobody, rank);
}

std::optional<int> rank_in(const std::atomic<std::int32_t>& place) {
  const std::int32_t rank = place.load();
  return rank == kNobody ? std::nullopt : std::optional<int>(rank);
}

}  // namespace

struct JoinedBoard::Content {
  std::atomic<std::int32_t> reporter{kNobody}, failed{kNobody};
  std::atomic<std::int64_t> interruption{kNobody};  // the signal above the rank
  std::atomic<std::uint32_t> complete{0}, written{0}, has_path{0}, reserved{0};
  std::atomic<std::uint64_t> reserved_hash{0};
  std::array<char, PATH_MAX> report_path{};  // ends with a zero
};
static_assert(std::atomic<std::int32_t>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "locks of the C++ library do not work across processes");

JoinedBoard JoinedBoard::create() {
  JoinedBoard board(SharedMemory::create("ddpbench-joined", sizeof(Content)));
  new (board.memory_.view().data) Content;
  return board;
}

JoinedBoard JoinedBoard::open(const std::string& handle) {
  JoinedBoard board(SharedMemory::open(handle));
  if (board.memory_.view().bytes != sizeof(Content)) {
    throw CommError(fmt::format("the memory {} is not that of a joined world", handle));
  }
  return board;
}

JoinedBoard::Content& JoinedBoard::content() const {
  return *std::launder(reinterpret_cast<Content*>(memory_.view().data));
}

void JoinedBoard::tell_report_path(const std::string& path, std::uint64_t hash) {
  auto& place = content().report_path;
  if (path.size() >= place.size()) {
    throw ConfigError(fmt::format("--json: a path of {} bytes; at most {} are possible",
                                  path.size(), place.size() - 1));
  }
  content().has_path.store(0);
  place.fill('\0');
  std::ranges::copy(path, place.begin());
  if (hash != 0) content().reserved_hash.store(hash);
  content().has_path.store(1);
}

std::uint64_t JoinedBoard::reserved_hash() const { return content().reserved_hash.load(); }
void JoinedBoard::mark_reserved() { content().reserved.store(1); }
bool JoinedBoard::is_reserved() const { return content().reserved.load() != 0; }

std::string JoinedBoard::report_path() const {
  if (content().has_path.load() == 0) return "";
  const auto& path = content().report_path;
  return {path.begin(), std::ranges::find(path, '\0')};
}

void JoinedBoard::mark_complete() { content().complete.store(1); }
bool JoinedBoard::is_complete() const { return content().complete.load() != 0; }

void JoinedBoard::mark_interrupted(int rank, int signal) {
  if (failed_rank()) return;
  std::int64_t nobody = kNobody;
  content().interruption.compare_exchange_strong(nobody, (std::int64_t{signal} << 32) + rank);
}

std::optional<Interruption> JoinedBoard::interruption() const {
  const std::int64_t both = content().interruption.load();
  if (both == kNobody) return std::nullopt;
  return Interruption{static_cast<int>(both & INT32_MAX), static_cast<int>(both >> 32)};
}

void JoinedBoard::mark_failed(int rank) { put_if_first(content().failed, rank); }
std::optional<int> JoinedBoard::failed_rank() const { return rank_in(content().failed); }

bool JoinedBoard::take_report(int rank, const std::function<bool(int)>& gone) {
  std::int32_t reporter = content().reporter.load();
  while (reporter != rank) {
    if (reporter != kNobody && !gone(reporter)) return false;
    if (content().reporter.compare_exchange_strong(reporter, rank)) return true;
  }
  return true;
}

void JoinedBoard::mark_written() { content().written.store(1); }
bool JoinedBoard::is_written() const { return content().written.load() != 0; }

}  // namespace ddpbench::bench
