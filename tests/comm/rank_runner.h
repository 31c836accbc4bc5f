// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs one function on every rank of a communicator, as threads or as forked processes, and reports
// failures there to the test.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "parallel/comm/comm_module.h"

namespace ddpbench::comm::testing {

inline constexpr CallOptions kNow{.after = nullptr, .start = Start::now};
inline constexpr CallOptions kDeferred{.after = nullptr, .start = Start::deferred};

enum class RankKind { threads, processes };

// A rank's function: throws (anything derived from std::exception) when its check fails.
using RankFunction = std::function<void(Communicator&)>;

// The error that each rank threw; empty: none. "signal 9" when a process was killed.
struct Outcome {
  std::vector<std::string> errors;  // [rank]
  // Adds a failure to the test for each rank with an error.
  void expect_success() const;
};

WorldOptions test_options();

Outcome run_ranks(RankKind kind, int size, const RankFunction& function,
                  const WorldOptions& options = test_options());

// Runs any function on `size` forked processes that share a store.
Outcome run_processes(int size, const std::function<void(Store&, int rank)>& function);

// Throws std::runtime_error, which the outcome shows.
void check(bool condition, const std::string& message);

void sleep_s(double seconds);

// Stops this process for so long.
void stop_this_process(double seconds);

// Issues nothing and calls check() until it throws; that error passes to the caller. Throws
// std::runtime_error when check() has not thrown after half a minute.
void check_until_it_fails(Communicator& communicator);

// Memory that peers may map, without a device.
Buffer mappable_buffer(std::size_t bytes);

}  // namespace ddpbench::comm::testing
