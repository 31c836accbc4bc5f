// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedStore: the store of a world that an external launcher started. Rank 0 serves it. The ranks
// use it to meet and to share what they make once.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "bench/joined/secret_file.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The failure of a world that is known to be that of one of its ranks.
class WorldFailure : public Error {
 public:
  WorldFailure(int rank, std::string kind, int exit_code, const std::string& message)
      : Error(message), rank_(rank), kind_(std::move(kind)), exit_code_(exit_code) {}
  int rank() const noexcept { return rank_; }
  const char* kind() const noexcept override { return kind_.c_str(); }
  int exit_code() const noexcept override { return exit_code_; }

 private:
  int rank_;
  std::string kind_;
  int exit_code_;
};

// In what a rank says that waits for others. Whatever else a rank says, it says at its end.
inline constexpr std::string_view kWaitingWords = ": waiting for ";

class JoinedStore {
 public:
  // `limit_s`: the limit of each wait for other ranks. `check` is called often during these waits;
  // what it throws ends them. `interface` (--interface): of several hosts; empty: automatic.
  // Connects to nothing yet.
  JoinedStore(const launch::RankEnvironment& environment, double limit_s,
              const std::string& interface, std::function<void()> check);
  JoinedStore(const JoinedStore&) = delete;
  JoinedStore& operator=(const JoinedStore&) = delete;

  // Serves the store on rank 0, connects to it, and takes this rank's place, which only one process
  // can take. `own` describes this process: "host" and "mark" (its host's name and
  // comm::host_mark()), "pid", and "parent", which identifies the process that started it. Call it
  // once. Does nothing in a world of one process, which has no store.
  // Throws ConfigError when another process has the place, when another job has the port with the
  // same secret, when the user must set a secret, and when this host lacks the interface. Throws
  // CommError.
  void connect(const nlohmann::json& own);
  comm::Store* get() { return store_.get(); }  // null before connect() and in a world of one
  // How to connect once more, and the address of this host at which ranks of other hosts reach it.
  // REQUIRES: there is a store.
  const comm::TcpStoreOptions& options() const { return options_; }
  std::string own_address() const;

  // Rank 0 calls this when all ranks are here: no further rank needs to find the store.
  void all_are_here() { secret_file_.remove(); }

  // A meeting of all ranks. Each rank says something; rank 0 hears them in the order of ranks and
  // answers all. A name may be used once. Every rank throws the same WorldFailure when `hear`
  // throws Error, when check() throws on rank 0, and when a rank does not come within the limit.
  // Every few seconds a line on stderr names the missing ranks. REQUIRES: there is a store.
  using Hear = std::function<void(int rank, const nlohmann::json& said)>;
  using Reply = std::function<nlohmann::json()>;
  nlohmann::json meet(const std::string& name, const nlohmann::json& own, const Hear& hear,
                      const Reply& reply);
  // To be called in place of meet() by a rank that failed before: the others throw its failure.
  // Does not throw.
  void excuse(const std::string& name, const Error& error);

  // Without a store, these two do nothing. Waits throw CommError when a rank does not come.
  //
  // Tells the other ranks a value.
  void share(const std::string& key, const std::string& value);
  // A barrier after which rank 0 may leave, and the store with it. Rank 0 leaves last, once the
  // others have had their answers.
  void wait_for_all(const std::string& name);

  // Returns the value that a rank shares. REQUIRES: there is a store.
  std::string await(const std::string& key);

 private:
  bool is_first() const { return environment_.rank == 0; }
  void serve(const std::string& owner);
  void find();
  void give_way(const nlohmann::json& own);
  void take_place(const nlohmann::json& own);
  nlohmann::json lead(const std::string& name, const Hear& hear, const Reply& reply);
  nlohmann::json hear_one(const std::string& name, int rank, double until_s);
  std::string missing(const std::string& name, int& first);
  void say_waiting(const std::string& missing);
  void refuse(const std::string& name, const WorldFailure& failure, bool wait_for_late);

  launch::RankEnvironment environment_;
  double limit_s_;
  std::string interface_;
  double begin_s_;
  double said_s_ = 0;       // since begin_s_, of the last word about who is missing
  bool checks_ = true;      // whether `check` is called
  std::string refused_at_;  // a store that has refused the secret; empty: none has
  comm::TcpStoreOptions options_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  std::shared_ptr<comm::Store> store_;
  SecretFile secret_file_;
};

}  // namespace ddpbench::bench
