// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GlooEngine: one rank's calls by Gloo's own collectives and messages, over TCP. Gloo 0.5 has no
// reduce-scatter over its unbound buffers: here it is an all-reduce, of which a rank keeps its
// part.
//
// A thread of Gloo's moves the bytes, and collectives block the executing thread, until another
// closes the connections. Gloo can neither test a message nor wait for any one of several, so a
// thread for each peer and direction waits for the messages one after the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "parallel/comm/library/library_engine.h"

namespace gloo {
class Context;
namespace transport {
class Device;
}
}  // namespace gloo

namespace ddpbench::comm {

class GlooEngine final : public LibraryEngine {
 public:
  // Collective over the ranks of the part: connects them. `exchange`: as of split(). Throws
  // CommError.
  GlooEngine(const SplitPart& part, std::shared_ptr<gloo::transport::Device> device,
             double timeout_s, const TextExchange& exchange);
  ~GlooEngine() override;

  std::unique_ptr<LibraryEngine> split(const SplitPart& part,
                                       const TextExchange& exchange) override;
  void leave() noexcept override;

 private:
  class Moving;   // a message
  class Waiting;  // a thread that waits for messages

  void run(const Operation& operation, Deadline deadline, Waiter waiter) override;
  std::unique_ptr<Transfer> start(const Operation& operation) override;
  void give_up() noexcept override;
  void doze(Pause& pause, std::uint32_t seen, Deadline deadline) override;

  // Collectives. T is as wide as an element.
  template <typename T>
  void call(const Operation& operation);
  template <typename T>
  void all_reduce(const Elements& data, ReduceOp op);
  template <typename T>
  void reduce(const Operation& operation);
  template <typename T>
  void move(const Operation& operation);
  void guard();

  const std::shared_ptr<gloo::transport::Device> device_;
  const double timeout_s_;
  std::shared_ptr<gloo::Context> context_;  // null for one rank
  std::uint32_t calls_ = 0;                 // collectives that have begun
  std::mutex guard_mutex_;                  // guards these
  std::condition_variable guard_ends_;
  std::optional<Deadline> deadline_;  // of the collective that runs
  bool is_late_ = false, ends_ = false;
  std::thread guard_;                              // ends the collective at its deadline
  std::vector<std::shared_ptr<Waiting>> waiting_;  // [2 * peer + direction]; null: none yet
};

}  // namespace ddpbench::comm
