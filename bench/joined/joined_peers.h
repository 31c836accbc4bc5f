// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedPeers: the other ranks of a joined world, as one rank sees them: how it meets them, whether
// their processes live, and which rank writes the report of a run that fails.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/host/host_network.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/joined_plan.h"
#include "bench/joined/joined_store.h"
#include "bench/joined/joined_verdict.h"
#include "bench/joined/world_relay.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/world_watch.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {

class JoinedPeers {
 public:
  // `limit_s`: the limit of each wait. `interface`: see JoinedStore.
  JoinedPeers(const launch::RankEnvironment& environment, double limit_s,
              const std::string& interface);
  JoinedPeers(const JoinedPeers&) = delete;
  JoinedPeers& operator=(const JoinedPeers&) = delete;

  JoinedStore& store() { return store_; }
  int rank() const { return environment_.rank; }
  bool is_first() const { return environment_.rank == 0; }

  // Meets the other ranks: each is there once, with the same `plan`. From then on they know when
  // one of them ends, and have a board on each host that outlives each of its ranks. Throws
  // ConfigError and WorldFailure; see JoinedStore. A rank 0 that does not come or is gone is a
  // WorldFailure, too.
  void join(const PlanValues& plan);
  JoinedBoard* board() { return board_ ? &*board_ : nullptr; }  // null before join()
  bool is_complete() const { return board_ && board_->is_complete(); }
  // Empty before join().
  const JoinedHosts& hosts() const { return hosts_; }

  // What is made once for each host is made by the host's lowest rank and told under a key of the
  // host's own.
  bool makes_for_host() const { return maker() == environment_.rank; }
  std::string host_key(const std::string& key) const;
  // Returns the value that another rank shares once it has made it. That is the lowest rank of this
  // host, or rank 0 if this rank is the lowest. The wait times out only while that rank is stopped,
  // because only it knows how long its work takes. REQUIRES: join() was called.
  std::string await_made(const std::string& key);

  // From now on until leave(), the records of ranks on other hosts arrive in rank 0's `channels`,
  // about a second late. exchange_records() brings them up to date: those ranks call it first, then
  // rank 0.
  void mirror_records(launch::RankChannels& channels);
  void exchange_records() const;
  // From now on ranks of other hosts neither hear of this one nor are heard. The last call.
  void leave() { relay_.reset(); }

  // Throws where waiting for others is in vain: Interrupted, or a WorldFailure when a rank has
  // failed or its process has ended. Not after the world is complete.
  void check();
  // The same as a reason; empty: go on.
  std::string reason_to_end();

  // Whether a signal has asked this process to end. If so, the other ranks can see that from now on
  // and know why this rank fails. Code that ends the rank because of a signal must therefore ask
  // here first. Thread-safe.
  bool is_told_to_end();
  // The seconds in which a rank that was asked to end, or failed at `failed_s`, may wait for the
  // cause before its launcher kills it.
  double left_before_kills_s(double failed_s) const;
  // A rank of another host may be cut off from a rank 0 that writes the report as well, in a file
  // that both hosts see. That of rank 0's host knows more.
  bool defers_to_rank_0() const;

  // Of this machine, with what all ranks have used. That is unknown where one of them is on another
  // host or has ended.
  report::MachineSnapshot take_snapshot() const;

  // Call it when this rank has lost a peer. With several hosts the cause may not be known here yet;
  // this waits for it a moment.
  void await_news() const;
  // This rank has failed, and said why in its channel.
  void mark_failed();
  // To be called when this rank has failed. `channels` have the areas of all ranks.
  WorldView look(const launch::RankChannels& channels) const;
  // Whether this rank writes the report. Rank 0 does, or else the lowest rank that can. If rank 0
  // was gone before all had joined, the first rank that asks does. The others wait here until the
  // report is written, because a rank that ends earlier makes the launcher end the whole world.
  bool takes_report();
  // To be called when this rank has written the report.
  void tell_written();
  // Waits for the others to fail, finish or end, too, at most so long. Returns whether all have.
  bool settle(const launch::RankChannels& channels, double at_most_s) const;

 private:
  void meet(const PlanValues& plan);
  void open_board(const std::string& handle);
  int maker() const;
  bool may_take_report(bool is_late) const;
  std::string lost_words(int rank) const;
  bool claims_report_without_board();
  std::optional<int> first_lost() const;

  launch::RankEnvironment environment_;
  JoinedStore store_;
  std::optional<JoinedBoard> board_;       // from join() on
  launch::WorldWatch watch_;               // sees the other ranks from join() on
  bool lacks_first_ = false;               // rank 0 was not there, or gone before all had joined
  HostClaim claim_;                        // on the report, where rank 0 is lacking
  JoinedHosts hosts_;                      // from join() on
  std::unique_ptr<WorldRelay> relay_;      // from join() on, where there are several hosts
  std::once_flag told_interrupted_;        // the relay was
  std::atomic<double> told_to_end_s_ = 0;  // when that was first seen; 0: it was not
};

}  // namespace ddpbench::bench
