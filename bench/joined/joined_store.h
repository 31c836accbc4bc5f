// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedStore: the store of a world that an external launcher started. Rank 0 serves it. The ranks
// use it to share what they make once, to meet, and to leave what they know when a run fails.
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
  // `limit_s`: the limit of each wait for other ranks. Connects to nothing yet.
  JoinedStore(const launch::RankEnvironment& environment, double limit_s)
      : environment_(environment), limit_s_(limit_s) {}

  // Serves the store on rank 0 and connects to it; called once. Does nothing in a world of one
  // process, which has no store. Throws CommError.
  void connect();
  comm::Store* get() { return store_.get(); }  // null before connect() and in a world of one

  // Without a store, these two do nothing. Waits throw CommError when a rank does not come.
  //
  // Tells the other ranks a value.
  void share(const std::string& key, const std::string& value);
  // A barrier after which rank 0 may leave, and the store with it. Rank 0 leaves last, once the
  // others have had their answers.
  void wait_for_all(const std::string& name);

  // Returns the value that a rank shares. REQUIRES: there is a store.
  std::string await(const std::string& key);
  // Collects each rank's area on rank 0. REQUIRES: there is a store.
  void collect(launch::RankChannels& channels);

  // To be called after this rank failed. None of these throws.
  //
  // Leaves this rank's records in the store and tells why it failed. It does not tell why when it
  // only noticed another rank's failure, or another rank was faster.
  void tell_failure(const launch::RankError& own, launch::RankChannels& channels);
  // Returns the failure of the first rank that failed, if it could tell it; else `noticed`.
  launch::RunFailure first_failure(const launch::RunFailure& noticed);
  // On rank 0: takes the areas that other ranks left. A killed rank left none.
  void take_what_is_left(launch::RankChannels& channels);

 private:
  bool is_first() const { return environment_.rank == 0; }

  launch::RankEnvironment environment_;
  double limit_s_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  std::shared_ptr<comm::Store> store_;
};

}  // namespace ddpbench::bench
