// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "gloo" backend connects processes or threads over TCP by Gloo's own collectives.
#include <gloo/config.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>

#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "parallel/comm/gloo/gloo_engine.h"
#include "parallel/comm/library/library_communicator.h"

namespace ddpbench::comm {

namespace {

class GlooModule final : public CommModule {
 public:
  std::string version() const override {
    return fmt::format("Gloo {}.{}.{}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
  }
  std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                     const EngineOptions& options) const override;
  std::vector<std::unique_ptr<Communicator>> make_for_threads(
      int size, const EngineOptions& options) const override;
  void share_pauses(DeadlineClock::Pauses& pauses) const override { DeadlineClock::share(pauses); }
};

std::unique_ptr<Communicator> GlooModule::make(Store& store, int rank, int size,
                                               const EngineOptions& options) const {
  // Gloo writes to connections that a peer has closed. That is an error there, and no reason to
  // end.
  ::signal(SIGPIPE, SIG_IGN);
  const SplitPart world = whole_world(rank, size);
  const auto device =
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(options.address.c_str()));
  return make_library_communicator(
      "gloo",
      std::make_unique<GlooEngine>(world, device, options.timeout_s,
                                   exchange_in(store, rank, size, options)),
      options);
}

// The threads meet through a store of this process. Each end is made on a thread of its own,
// because making one waits for the others.
std::vector<std::unique_ptr<Communicator>> GlooModule::make_for_threads(
    int size, const EngineOptions& options) const {
  ensure(size >= 1, "a communicator of {} threads", size);
  const auto store = make_local_store();
  std::vector<std::unique_ptr<Communicator>> ranks(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      try {
        ranks[place] = make(*store, rank, size, options);
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

}  // namespace

const CommModule& engine_module() {
  static const GlooModule module;
  return module;
}

}  // namespace ddpbench::comm
