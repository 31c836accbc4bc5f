// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one function that the Gloo module exports.
#include "parallel/comm/gloo/gloo.h"

namespace ddpbench::comm {
namespace {

class GlooModule final : public CommModule {
 public:
  std::string version() const override { return gloo_version(); }
  std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                     const EngineOptions& options) const override {
    return make_gloo(store, rank, size, options);
  }
  std::vector<std::unique_ptr<Communicator>> make_for_threads(
      int size, const EngineOptions& options) const override {
    return make_thread_gloo(size, options);
  }
  void share_pauses(DeadlineClock::Pauses& pauses) const override { DeadlineClock::share(pauses); }
};

}  // namespace
}  // namespace ddpbench::comm

extern "C" __attribute__((visibility("default"))) const ddpbench::comm::CommModule*
ddpbench_comm_module(const char* build) {
  return ddpbench::comm::comm_module_of_build<ddpbench::comm::GlooModule>(build);
}
