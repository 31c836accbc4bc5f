// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the devices of a run tell each other, before any of them allocates, what they will take of
// memory that they have together: a GPU that several share, or the host's.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::bench {

class ClaimExchange {
 public:
  struct Options {
    comm::Store* store = nullptr;  // of all that meet; outlives this
    int devices = 1;               // that meet
    double timeout_s = 60;         // of each call
    // Called now and then while others are waited for; throws when they cannot come any more.
    std::function<void()> check_peers;
  };
  explicit ClaimExchange(Options options) : options_(std::move(options)) {}

  // Each is collective over the devices, which call it once, `index` of the calling one among them,
  // and throws CommTimeout that names the first that does not come.
  //
  // All have planned: what planning took is free again.
  void await_plans(int index) const;
  // `own`: what the device will take. All claims to the same memory, in the order of the devices.
  // Nobody allocates before all have told theirs.
  std::vector<MemoryClaim> exchange(int index, const MemoryClaim& own) const;

 private:
  void await_all(int index, const std::string& what) const;

  Options options_;
};

}  // namespace ddpbench::bench
