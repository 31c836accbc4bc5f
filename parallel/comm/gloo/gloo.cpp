// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/gloo.h"

#include <gloo/config.h>

#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "parallel/comm/gloo/gloo_link.h"
#include "parallel/comm/wire/wire_communicator.h"

namespace ddpbench::comm {

namespace {

std::unique_ptr<WireLink> link_ranks(Store& store, int rank, const std::vector<int>& members,
                                     const EngineOptions& options) {
  return std::make_unique<GlooLink>(store, rank, static_cast<int>(members.size()), options);
}

}  // namespace

std::unique_ptr<Communicator> make_gloo(Store& store, int rank, int size,
                                        const EngineOptions& options) {
  return make_wire_communicator("gloo", store, rank, size, link_ranks, options);
}

// The threads meet through a store of this process. Each end is made on a thread of its own,
// because making one waits for the others.
std::vector<std::unique_ptr<Communicator>> make_thread_gloo(int size,
                                                            const EngineOptions& options) {
  ensure(size >= 1, "a communicator of {} threads", size);
  const auto store = make_local_store();
  std::vector<std::unique_ptr<Communicator>> ranks(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      try {
        ranks[place] = make_gloo(*store, rank, size, options);
      } catch (...) {
        errors[place] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return ranks;
}

std::string gloo_version() {
  return fmt::format("Gloo {}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
}

}  // namespace ddpbench::comm
