// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WorldRelay: what the ranks of several hosts tell each other through the store, where those of one
// host share memory: that a rank has ended, failed or was asked to end, that the report is written,
// and what ranks of other hosts write into their channels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/joined_verdict.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/world_watch.h"

namespace ddpbench::bench {

class WorldRelay {
 public:
  // From now on the others hear when this process ends, and what they tell is entered into `watch`
  // and `board`, which outlive this object, on a thread of its own. A rank 0 that cannot be reached
  // for `store.timeout_s` counts as ended. `store` as for a client; its check is not called.
  // Throws CommError when the store is gone.
  WorldRelay(comm::TcpStoreOptions store, int rank, const JoinedHosts& hosts,
             launch::WorldWatch& watch, JoinedBoard& board);
  ~WorldRelay();
  WorldRelay(const WorldRelay&) = delete;
  WorldRelay& operator=(const WorldRelay&) = delete;

  // These three tell the other hosts. They do not throw: a store that is gone is known.
  void tell_failed();
  void tell_interrupted(int signal);
  void tell_written();

  // From now on rank 0 has in its `channels`, about once a second, what ranks of other hosts write
  // into theirs. The channels outlive this object.
  void mirror(launch::RankChannels& channels);
  // The same now: on other hosts sends what is new, on rank 0 receives it. Does not throw.
  void exchange();

 private:
  struct Stopped {};
  void listen();
  void hear(const std::string& news);
  void tell(const char* kind);  // unless it is left alone
  void append(const char* kind, int signal = 0);
  // Whether the store has not answered just now, or is gone.
  bool is_left_alone() const;
  void note_silence();
  void keep_up();
  void send();
  void receive(int rank);

  const int rank_;
  const JoinedHosts hosts_;
  launch::WorldWatch& watch_;
  JoinedBoard& board_;
  const double limit_s_;
  std::atomic<bool> stopping_ = false, lost_first_ = false;
  const FileDescriptor bell_;             // rings when stopping_ is set
  std::shared_ptr<comm::Store> news_;     // the thread's alone
  std::shared_ptr<comm::Store> records_;  // for all else
  std::mutex mutex_;                      // guards what follows
  launch::RankChannels* channels_ = nullptr;
  std::optional<launch::RankMirror> mirror_;  // of this rank, unless it is on rank 0's host
  std::vector<std::string> unsent_;
  std::int64_t sent_ = 0;
  std::vector<std::int64_t> received_;  // [rank] messages
  double answered_s_ = 0;
  std::atomic<double> exchanged_s_ = 0;
  std::atomic<double> silent_s_ = -1e9;  // when the store last did not answer in time
  std::thread thread_;
};

}  // namespace ddpbench::bench
