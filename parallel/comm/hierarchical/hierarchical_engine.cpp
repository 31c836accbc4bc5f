// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/hierarchical/hierarchical_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::comm {

namespace {

// While one part crosses the wire, the next is reduced. At 1 Gbit/s a part takes 8 ms there, and a
// tenth of one in shared memory.
constexpr std::size_t kPartBytes = kMiB;

constexpr auto kAwaitLook = std::chrono::milliseconds(1);

constexpr CallOptions kHere{.after = nullptr, .start = Start::deferred};

Elements part_of(const Elements& whole, std::size_t part) {
  const std::size_t each = kPartBytes / size_of(whole.type), first = part * each;
  auto* const data = static_cast<std::byte*>(whole.data) + first * size_of(whole.type);
  return {data, std::min(each, whole.count - first), whole.type};
}

std::size_t parts_of(const Elements& whole) {
  return (whole.bytes() + kPartBytes - 1) / kPartBytes;
}

// Says while it lives that a call is under way.
class Running {
 public:
  explicit Running(std::atomic<bool>& flag) : flag_(flag) { flag_.store(true); }
  ~Running() { flag_.store(false); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

HierarchicalEngine::HierarchicalEngine(Communicator& world, std::unique_ptr<Communicator> host,
                                       std::unique_ptr<Communicator> across)
    : world_(world), host_(std::move(host)), across_(std::move(across)) {}

WorkTimes HierarchicalEngine::run_collective(const Operation& operation, Deadline deadline,
                                             Waiter) {
  ensure(operation.kind == OperationKind::all_reduce, "a hierarchical engine got another call");
  const double start_s = steady_s();
  const Running running(running_);
  try {
    throw_if_aborted(&operation);
    if (is_one_host()) {
      host_->all_reduce(operation.in, operation.op, kHere).synchronize(deadline);
    } else {
      all_reduce_in_parts(operation, deadline);
    }
  } catch (const CommTimeout& timeout) {
    const std::string reason = prefix(&operation) + timeout.what();
    abort(reason);
    throw CommTimeout(reason, operation_name(&operation));
  } catch (const CommError& error) {
    const std::string reason = prefix(&operation) + error.what();
    abort(reason);  // ranks of other hosts wait for those that wait for the failed one
    throw CommError(reason, operation_name(&operation));
  }
  return {start_s, start_s, 0, false};
}

// All ranks of a host reduce all parts first and broadcast them then, so their order is one. This
// thread does both, while a thread of `across_` has earlier parts cross. A single part has nothing
// to run beside, so this thread does that, too, which spares the hand-over.
void HierarchicalEngine::all_reduce_in_parts(const Operation& operation, Deadline deadline) {
  const Elements& whole = operation.in;
  const std::size_t parts = parts_of(whole);
  const ReduceOp op = operation.op == ReduceOp::average ? ReduceOp::sum : operation.op;
  const CallOptions beside{.after = nullptr, .start = parts > 1 ? Start::now : Start::deferred};
  crossed_.clear();
  for (std::size_t part = 0; part < parts; ++part) {
    const Elements elements = part_of(whole, part);
    host_->reduce(elements, op, 0, kHere).synchronize(deadline);
    if (across_) crossed_.push_back(across_->all_reduce(elements, op, beside));
  }
  for (std::size_t part = 0; part < parts; ++part) {
    const Elements elements = part_of(whole, part);
    if (across_) crossed_[part].synchronize(deadline);
    if (across_ && operation.op == ReduceOp::average) {
      const std::array<const std::byte*, 1> source = {static_cast<std::byte*>(elements.data)};
      reduce_sources(elements.data, source, elements.count,
                     {elements.type, ReduceOp::average, world_.size()});
    }
    host_->broadcast(elements, 0, kHere).synchronize(deadline);
  }
}

void HierarchicalEngine::start_message(std::shared_ptr<QueuedWork>, Deadline) {
  throw InternalError("a hierarchical engine got a message");
}

// Without messages there is nothing to move meanwhile. A planted delay waits here.
void HierarchicalEngine::await(const Operation* operation, Deadline deadline, Waiter,
                               PredicateRef done) {
  while (!done() && !has_passed(deadline)) {
    throw_if_aborted(operation);
    std::this_thread::sleep_for(kAwaitLook);
  }
}

void HierarchicalEngine::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = reason;
  }
  world_.abort(reason);
  host_->abort(reason);
  if (across_) across_->abort(reason);
}

void HierarchicalEngine::throw_if_aborted(const Operation* operation) const {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw CommError(*aborted_, operation_name(operation));
}

void HierarchicalEngine::stop() noexcept {
  if (running_.load()) abort(prefix(nullptr) + "the communicator was destroyed meanwhile");
}

std::string HierarchicalEngine::prefix(const Operation* operation) const {
  return fmt::format("rank {} of {}{}: {}", world_.rank(), world_.size(),
                     is_one_host() ? "" : " (below, ranks count within a host, or the hosts)",
                     operation ? describe(*operation) + ": " : "");
}

}  // namespace ddpbench::comm
