// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ClaimExchange: before any device of a run allocates, the devices tell each other what they will
// take of memory that they share: that of a GPU, or the host's.
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
    comm::Store* store = nullptr;  // common to all devices; outlives this
    int devices = 1;               // that take part
    double timeout_s = 60;         // of each call
    // Called now and then while others are waited for; throws when they cannot come any more.
    std::function<void()> check_peers;
  };
  explicit ClaimExchange(Options options) : options_(std::move(options)) {}

  // Each of the two is collective over the devices: every device calls it once, with its `index`
  // among them. It throws CommTimeout, which names the first device that does not come.
  //
  // Returns when all devices have planned, so that the memory that planning took is free again.
  void await_plans(int index) const;
  // `own`: what the device will take. Returns all claims to the same memory, in the order of the
  // devices, when all devices have told theirs.
  std::vector<MemoryClaim> exchange(int index, const MemoryClaim& own) const;

 private:
  void await_all(int index, const std::string& what) const;

  Options options_;
};

}  // namespace ddpbench::bench
