// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// --emulate-gil: what each call of a layer costs where an interpreter makes it, and what its global
// lock adds where the replicas of a process are threads of one interpreter (dp, and ddp with
// several devices a process). A replica holds the lock while it launches a call, not while the call
// computes, as PyTorch does.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/nn/program.h"

namespace ddpbench::bench {

// One a process. Its replicas' threads launch at the same time.
class InterpreterLock {
 public:
  explicit InterpreterLock(double launch_s) : launch_s_(launch_s) {}
  // Waits for the lock, and holds it for `launch_s` of processor time.
  void launch();

 private:
  const double launch_s_;
  std::mutex mutex_;
};

// Launches each call of a replica's graph before the call runs, and passes it on. A layer that runs
// in micro-batches is launched once, with the first of them: a script would make one call.
class LaunchedCalls final : public nn::LayerObserver {
 public:
  // `names`: Graph::call_names. `also`: another observer of the calls; may be null. `lock` and
  // `also` outlive this.
  LaunchedCalls(InterpreterLock& lock, const std::vector<std::string>& names,
                nn::LayerObserver* also);

  void begin_call(std::size_t call, Stream& stream) override;
  void end_call(std::size_t call, Stream& stream) override;

 private:
  InterpreterLock& lock_;
  std::vector<bool> is_launched_;  // [call]
  nn::LayerObserver* also_;
};

}  // namespace ddpbench::bench
