// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How a run of a joined world ended, by pure functions over what one of its ranks sees.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/joined/joined_store.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/launch/guilty_rank.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {

// JoinedBoard: memory that all ranks of a joined world map, so that it outlives each of them. By it
// they decide which rank writes the report of a run that fails: rank 0, or when that is gone the
// lowest that lives.

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

struct WorldView {
  std::vector<launch::RankView> ranks;       // WorldWatch::look()
  std::optional<Interruption> interruption;  // JoinedBoard::interruption(), or this rank's own
  bool complete = false;                     // all ranks had run to the end
};

struct Verdict {
  launch::SuperviseResult result;
  // A rank is known to have failed by itself, or to have been asked to end. Otherwise ranks only
  // noticed something, and its cause may still show.
  bool certain = false;
  bool saw_stopped = false;  // the rank was seen stopped, or as launch::silent_rank()
};

// REQUIRES: a rank has failed. Looks for the cause in this order: a rank that threw an error of its
// own; a rank whose process has ended; a signal that asked a rank to end; if ranks only noticed a
// failure, the rank that guilty_rank.h blames. A failure after all ranks have run to the end is not
// a failure of the run.
Verdict judge_world(WorldView world);

// The same before the ranks share channels: then they know only what rank 0 says (`said`), or that
// a process has ended. `own`: the error of the rank that judges.
Verdict judge_meeting(const WorldView& world, const WorldFailure& said,
                      const launch::RankError& own);

// Replaces `verdict` by that of a later look where it says more. A launcher that cleans up lets
// stopped ranks go on, and they then fail like the others. What is certain stays, but for what
// other hosts have reported of their ranks' calls meanwhile, and for an interruption by a launcher
// because of a rank that is known by now to have failed.
void take_later(Verdict& verdict, Verdict later);

// The verdict where a signal asked a rank to end: the run is interrupted, and the failure names
// that rank and the signal. A launcher's or user's signal may reach one rank or all: each ends the
// run alike.
Verdict interrupted_verdict(const Interruption& interruption);

// Whether this rank's collective was given up by one that a signal asked to end. The engine may
// tell that first, and rank 0 end, with the store, before this rank has heard of the signal. A
// launcher sends such signals after failures, too.
bool is_given_up_by_signal(const std::exception& error);

// Whether each rank but `own` has failed, finished or ended, so that its records are final.
bool has_settled(const std::vector<launch::RankView>& ranks, int own);

// Whether the user's input, or something that is not here, is the reason.
bool is_refusal(const std::exception& error);

}  // namespace ddpbench::bench
