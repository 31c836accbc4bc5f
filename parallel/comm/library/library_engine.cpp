// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/library/library_engine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

namespace {

constexpr double kSpin_s = 1e-3;
// To give away a core that nobody wants takes no time.
constexpr double kLostCore_s = 50e-6;
constexpr std::int64_t kShortestNap_us = 20, kLongestNap_us = 200;

}  // namespace

Pause::Pause(Waiter waiter) : spin_until_s_(waiter == Waiter::caller ? steady_s() + kSpin_s : 0) {}

void Pause::take() {
  if (nap_us_ > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(nap_us_));
    nap_us_ = std::min(2 * nap_us_, kLongestNap_us);
    return;
  }
  const double before_s = steady_s();
  if (before_s < spin_until_s_) return;
  ::sched_yield();
  if (steady_s() - before_s > kLostCore_s) nap_us_ = kShortestNap_us;
}

// ---- collectives ----

WorkTimes LibraryEngine::run_collective(const Operation& operation, Deadline deadline,
                                        Waiter waiter) {
  const double start_s = steady_s();
  throw_if_aborted(&operation);
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) throw CommError(prefix(&operation) + "the communicator is being destroyed");
    running_ = true;
  }
  std::exception_ptr failure;
  try {
    if (operation.part().count > 0 || operation.kind == OperationKind::barrier) {
      const bool divides = operation.op == ReduceOp::average && !averages();
      Operation summed = operation;
      if (divides) summed.op = ReduceOp::sum;
      run(summed, deadline, waiter);
      const bool is_part = operation.kind == OperationKind::reduce_scatter;
      if (divides) divide_sum(is_part ? operation.out : operation.in, size_);
    }
  } catch (const CommTimeout& late) {
    failure = std::make_exception_ptr(
        CommTimeout(prefix(&operation) + late.what(), operation_name(&operation)));
  } catch (const CommError& error) {
    failure = std::make_exception_ptr(
        CommError(prefix(&operation) + error.what(), operation_name(&operation)));
  }
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  if (failure) {
    throw_if_aborted(&operation);
    std::rethrow_exception(failure);
  }
  return {start_s, start_s, 0, false};
}

// ---- messages ----

void LibraryEngine::start_message(std::shared_ptr<QueuedWork> work) {
  const Operation& o = work->operation();
  ensure(o.root != rank_, "rank {} is its own peer in a {}", rank_, to_string(o.kind));
  work->begin();
  try {
    messages_.push_back({work, start(o)});
  } catch (const CommError& error) {
    throw CommError(prefix(&o) + error.what(), operation_name(&o));
  }
}

void LibraryEngine::advance_messages() {
  for (Message& message : messages_) {
    const Operation& o = message.work->operation();
    try {
      if (message.transfer->test()) message.work->complete(false);
    } catch (const CommError& error) {
      throw_if_aborted(&o);
      throw CommError(prefix(&o) + error.what(), operation_name(&o));
    }
  }
  std::erase_if(messages_, [](const Message& m) { return m.work->finished(); });
}

void LibraryEngine::await(const Operation* operation, Deadline deadline, Waiter waiter,
                          PredicateRef done) {
  Pause pause(waiter);
  while (true) {
    const std::uint32_t seen = bell_.load(std::memory_order_seq_cst);
    advance_messages();
    if (done()) return;
    throw_if_aborted(operation);
    if (has_passed(deadline)) {
      throw CommTimeout(
          fmt::format("{}deadline passed while waiting for {}", prefix(operation),
                      operation ? fmt::format("rank {}", operation->root) : "a message"),
          operation_name(operation));
    }
    doze(pause, seen, deadline);
  }
}

// ---- failures ----

void LibraryEngine::wake_waiter() noexcept {
  bell_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(bell_, FutexScope::process);
}

void LibraryEngine::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = reason;
  }
  give_up(reason);
  wake_waiter();
}

void LibraryEngine::throw_if_aborted(const Operation* operation) const {
  const std::lock_guard lock(mutex_);
  if (!aborted_) return;
  throw CommError(fmt::format("{}aborted by rank {}: {}", prefix(operation), rank_, *aborted_),
                  operation_name(operation));
}

bool LibraryEngine::has_failed() const {
  const std::lock_guard lock(mutex_);
  return aborted_.has_value();
}

void LibraryEngine::stop() noexcept {
  bool is_running = false;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    is_running = running_;
  }
  if (is_running) abort("the communicator was destroyed meanwhile");
  wake_waiter();
}

std::vector<std::string> exchange_in(Store& store, int rank, int size, const WorldOptions& options,
                                     const std::string& text) {
  const auto key = [&](int of) { return fmt::format("{}/exchange/{}", options.name, of); };
  store.set(key(rank), text);
  std::vector<std::string> texts;
  for (int peer = 0; peer < size; ++peer) {
    try {
      texts.push_back(store.get(key(peer), options.timeout_s));
    } catch (const CommTimeout&) {
      throw CommTimeout(fmt::format("rank {} did not join within {} s", peer, options.timeout_s));
    }
  }
  return texts;
}

}  // namespace ddpbench::comm
