// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedStore: the store of a world that a launcher started. Rank 0 serves it. Through it the ranks
// share what they make once, meet, and leave what they know when a run fails.
#pragma once

#include <memory>
#include <string>

#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {

class JoinedStore {
 public:
  // `limit_s`: of every wait for other ranks. Connects to nothing yet.
  JoinedStore(const launch::RankEnvironment& environment, double limit_s)
      : environment_(environment), limit_s_(limit_s) {}

  // Serves the store on rank 0 and connects to it, once. Does nothing in a world of one process,
  // which has no store. Throws CommError.
  void connect();
  comm::Store* get() { return store_.get(); }  // null until connect(), and in a world of one

  // Where there is no store, these do nothing. Waits throw CommError when a rank does not come.
  //
  // Tells the other ranks a value.
  void share(const std::string& key, const std::string& value);
  // A barrier after which rank 0 may leave, and with it the store: it goes last, when the others
  // have had their answers.
  void wait_for_all(const std::string& name);

  // The value that a rank shares. REQUIRES: there is a store.
  std::string await(const std::string& key);
  // Every rank's area to rank 0. REQUIRES: there is a store.
  void collect(launch::RankChannels& channels);

  // After this rank failed. None of these throws.
  //
  // Says why, unless this rank only noticed another's failure or another rank was faster, and
  // leaves there what this rank has recorded.
  void tell_failure(const launch::RankError& own, launch::RankChannels& channels);
  // The failure of the first rank that failed, where it could say so; else `noticed`.
  launch::RunFailure first_failure(const launch::RunFailure& noticed);
  // On rank 0: the areas that other ranks left. A rank that was killed left none.
  void take_what_is_left(launch::RankChannels& channels);

 private:
  bool is_first() const { return environment_.rank == 0; }

  launch::RankEnvironment environment_;
  double limit_s_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  std::shared_ptr<comm::Store> store_;
};

}  // namespace ddpbench::bench
