// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankBoard: what one rank knows of its peers where no memory is shared. Ranks tell each other by
// notices: only a rank that waits for long says where it is, so that ranks which move on say
// nothing. From the notices a rank sees who did not come, and who calls another operation.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/operation.h"

namespace ddpbench::comm {

enum class NoticeKind : std::uint32_t {
  status,   // the last collective that the rank has begun
  reply,    // the same, in answer to a status
  message,  // a send has begun
  taken,    // a receive is done
  abort,
  leave,  // the rank does nothing any more
};

// One notice as plain bytes.
struct Notice {
  NoticeKind kind = NoticeKind::status;
  std::int32_t rank = 0;     // who aborted; root of the collective
  std::uint64_t number = 0;  // of the collective, or of the message between the two ranks; from 1
  std::uint64_t count = 0;
  OperationKind operation = OperationKind::barrier;
  ReduceOp op = ReduceOp::sum;
  DataType type = DataType::fp32;
  std::array<char, 485> text{};
};
static_assert(sizeof(Notice) == 512);

// Thread-safe.
class RankBoard {
 public:
  static constexpr int kAnybody = -1;

  RankBoard(int rank, int size);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  // Numbers a collective of this rank, from 1.
  std::uint64_t begin(const Operation& operation);
  std::uint64_t begun() const;
  Notice status(NoticeKind kind) const;

  // Notes what a peer says of itself.
  void hear(int peer, const Notice& notice);
  // The connection to the peer has ended. It has died unless it had left.
  void lose(int peer);
  bool is_gone(int peer) const;
  bool are_all_gone() const;  // all peers
  // The first reason wins. True when this was the first.
  bool abort(int by, const std::string& reason);
  bool aborted() const;
  // This rank's communicator is being destroyed.
  void stop();

  // Throws CommError when the communicator was aborted.
  void throw_if_aborted(const Operation* operation) const;
  // Throws CommError when it was aborted or destroyed, a peer has died or calls another collective.
  void check(const Operation* operation) const;
  // REQUIRES: the peer is gone. Throws CommError.
  [[noreturn]] void throw_gone(int peer, const Operation* operation) const;
  // "rank 2, which did not come", for a collective that waits for `peer`, or for kAnybody.
  std::string late_peers(int peer) const;

  std::string prefix(const Operation* operation) const;  // "rank 0 of 2: all_reduce of 4 bytes: "

 private:
  enum class Presence : std::uint8_t { here, left, died };
  struct Peer {
    Presence presence = Presence::here;
    Notice last;  // its last status
  };
  static constexpr std::size_t kHistory = 64;

  void check_same(int peer) const;
  [[noreturn]] void throw_aborted(const Operation* operation) const;

  const int rank_;
  const int size_;
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::array<Operation, kHistory> history_{};  // [number % kHistory] own collectives
  std::uint64_t begun_ = 0;
  std::optional<std::string> aborted_;
  int aborted_by_ = 0;
  bool stopped_ = false;
};

}  // namespace ddpbench::comm
