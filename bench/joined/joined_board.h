// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedBoard: memory that all ranks of a joined world map, so that it outlives each of them. By it
// they decide which rank writes the report of a run that fails: rank 0, or when that is gone the
// lowest that lives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kernels/runtime/shared_memory.h"

namespace ddpbench::bench {

// A rank that a signal asked to end.
struct Interruption {
  int rank = 0, signal = 0;
};

// Any thread of any rank may use it.
class JoinedBoard {
 public:
  static JoinedBoard create();
  // Throws CommError.
  static JoinedBoard open(const std::string& handle);

  std::string handle() const { return memory_.handle(); }  // REQUIRES: made by create()

  // Where the report goes: an absolute path, empty while it is not known. Rank 0 says it before it
  // makes a file there, with the hash of the first content, and again when it has one. Throws
  // ConfigError when it is longer than any path may be.
  void tell_report_path(const std::string& path, std::uint64_t hash = 0);
  std::string report_path() const;
  std::uint64_t reserved_hash() const;
  // The file at the path, if there is one, may be replaced.
  void mark_reserved();
  bool is_reserved() const;

  // All ranks have run to the end, and their records are in the channels.
  void mark_complete();
  bool is_complete() const;

  // A signal asked this rank to end. The first rank counts; none does after a rank has failed,
  // since launchers then end the others.
  void mark_interrupted(int rank, int signal);
  std::optional<Interruption> interruption() const;
  // This rank has failed, and said why in its channel. The first rank counts.
  void mark_failed(int rank);
  std::optional<int> failed_rank() const;

  // Makes `rank` the one that writes the report, unless another is that and is not `gone`. Returns
  // whether it is.
  bool take_report(int rank, const std::function<bool(int rank)>& gone);
  // The report is on the disk; it may still be completed.
  void mark_written();
  bool is_written() const;

 private:
  struct Content;
  explicit JoinedBoard(SharedMemory memory) : memory_(std::move(memory)) {}
  Content& content() const;

  SharedMemory memory_;
};

}  // namespace ddpbench::bench
