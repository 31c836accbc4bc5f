// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/library/library_engine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/queue/executor.h"
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
  begin(operation);
  std::exception_ptr failure;
  try {
    const Elements &in = operation.in, &out = operation.out;
    if (size_ == 1) {
      if (out.data != in.data && out.bytes() > 0) std::memcpy(out.data, in.data, out.bytes());
    } else if (operation.part().count > 0 || operation.kind == OperationKind::barrier) {
      Operation summed = operation;
      if (operation.op == ReduceOp::average) summed.op = ReduceOp::sum;
      run(summed, deadline, waiter);
      if (operation.op == ReduceOp::average) divide(operation);
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

void LibraryEngine::begin(const Operation& operation) {
  throw_if_aborted(&operation);
  const std::lock_guard lock(mutex_);
  if (stopped_) throw CommError(prefix(&operation) + "the communicator is being destroyed");
  running_ = true;
}

void LibraryEngine::divide(const Operation& average) const {
  const Elements& sum = average.kind == OperationKind::reduce_scatter ? average.out : average.in;
  const std::array<const std::byte*, 1> source = {static_cast<const std::byte*>(sum.data)};
  reduce_sources(sum.data, source, sum.count, {sum.type, ReduceOp::average, size_});
}

// ---- messages ----

void LibraryEngine::start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) {
  const Operation& o = work->operation();
  work->begin();
  std::unique_ptr<Transfer> transfer;
  if (o.root != rank_) {
    try {
      transfer = start(o);
    } catch (const CommError& error) {
      const CommError failure(prefix(&o) + error.what(), operation_name(&o));
      messages_.push_back({std::move(work), deadline, nullptr});  // fails with the others
      throw failure;
    }
  }
  messages_.push_back({std::move(work), deadline, std::move(transfer)});
}

void LibraryEngine::advance_messages() {
  for (Message& message : messages_) {
    const Operation& o = message.work->operation();
    try {
      if (message.transfer && message.transfer->test()) message.work->complete(false);
    } catch (const CommError& error) {
      throw_if_aborted(&o);
      throw CommError(prefix(&o) + error.what(), operation_name(&o));
    }
  }
  while (deliver_own()) {
  }
  std::erase_if(messages_, [](const Message& m) { return m.work->finished(); });
}

// From this rank to itself: the first send and the first receive that are there meet.
bool LibraryEngine::deliver_own() {
  const auto first = [&](OperationKind kind) {
    return std::ranges::find_if(messages_, [&](const Message& m) {
      return !m.transfer && !m.work->finished() && m.work->operation().kind == kind;
    });
  };
  const auto send = first(OperationKind::send), recv = first(OperationKind::recv);
  if (send == messages_.end() || recv == messages_.end()) return false;
  const Elements &from = send->work->operation().in, &to = recv->work->operation().out;
  ensure(from.count == to.count && from.type == to.type, "a message of {} {} for {} {}", from.count,
         to_string(from.type), to.count, to_string(to.type));
  if (to.bytes() > 0) std::memmove(to.data, from.data, to.bytes());
  recv->work->complete(false);
  send->work->complete(false);
  return true;
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

std::optional<Deadline> LibraryEngine::earliest_message_deadline() const {
  std::optional<Deadline> earliest;
  for (const Message& message : messages_) {
    if (message.work->start() != Start::now) continue;
    earliest = std::min(earliest.value_or(message.deadline), message.deadline);
  }
  return earliest;
}

std::vector<std::shared_ptr<QueuedWork>> LibraryEngine::take_messages() {
  std::vector<std::shared_ptr<QueuedWork>> works;
  for (Message& message : messages_) {
    if (!message.work->finished()) works.push_back(std::move(message.work));
  }
  messages_.clear();
  return works;
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
  give_up();
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

std::string LibraryEngine::prefix(const Operation* operation) const {
  return fmt::format("rank {} of {}: {}", rank_, size_,
                     operation ? describe(*operation) + ": " : "");
}

namespace {

// The longest sleep in a wait for the store, between two calls of EngineOptions::check.
constexpr double kStoreLook_s = 0.1;

class LibraryCommunicator final : public OperationCommunicator {
 public:
  LibraryCommunicator(std::string backend, std::unique_ptr<LibraryEngine> engine,
                      const EngineOptions& options)
      : OperationCommunicator(engine->rank(), engine->size()),
        backend_(std::move(backend)),
        options_(options),
        engine_(engine.get()),
        executor_(std::make_shared<Executor>(std::move(engine), options)) {}
  ~LibraryCommunicator() override { executor_->shut_down(); }

  std::string backend() const override { return backend_; }
  double timeout_s() const noexcept override { return options_.timeout_s; }
  void group_start() override { executor_->group_start(); }
  void group_end() override { executor_->group_end(); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer&) override {}
  void deregister_buffer(const Buffer&) override {}
  void abort(const std::string& reason) noexcept override { executor_->abort(reason); }
  void check() override { engine_->throw_if_aborted(nullptr); }

 private:
  Work issue(const Operation& operation, const CallOptions& options) override;
  // A blocking all-gather of `count` bytes a rank.
  void gather_bytes(const void* own, std::size_t count, void* all);
  // The same of texts of any length, [rank].
  std::vector<std::string> exchange(const std::string& own);

  const std::string backend_;
  const EngineOptions options_;
  LibraryEngine* const engine_;               // owned by the executor
  const std::shared_ptr<Executor> executor_;  // works in flight own it, too
};

Work LibraryCommunicator::issue(const Operation& operation, const CallOptions& options) {
  // A CPU stream runs inline: what is queued there now is done.
  ensure(!options.after || options.after->device().kind() == DeviceKind::cpu,
         "the backend {} runs after streams of CPU devices", backend_);
  return Work(executor_->issue(operation, options.start));
}

void LibraryCommunicator::gather_bytes(const void* own, std::size_t count, void* all) {
  all_gather({const_cast<void*>(own), count, DataType::uint8},
             {all, count * static_cast<std::size_t>(size()), DataType::uint8},
             {.after = nullptr, .start = Start::deferred})
      .synchronize();
}

std::vector<std::string> LibraryCommunicator::exchange(const std::string& own) {
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size()));
  const std::uint64_t length = own.size();
  gather_bytes(&length, sizeof length, lengths.data());
  const std::size_t longest = std::ranges::max(lengths);
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * lengths.size(), '\0');
  gather_bytes(padded.data(), longest, all.data());
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.push_back(all.substr(rank * longest, lengths[rank]));
  }
  return texts;
}

std::unique_ptr<Communicator> LibraryCommunicator::split(int color, int key) {
  const TextExchange among_all = [this](const std::string& text) { return exchange(text); };
  const SplitPart part = choose_part(rank(), color, key, among_all);
  if (part.size() == 0) {
    among_all("");  // the others connect meanwhile
    return nullptr;
  }
  EngineOptions options = options_;
  options.watch = nullptr;
  return make_library_communicator(backend_, engine_->split(part, among_all), options);
}

}  // namespace

SplitPart whole_world(int rank, int size) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  SplitPart all{std::vector<int>(static_cast<std::size_t>(size)), rank};
  std::iota(all.members.begin(), all.members.end(), 0);
  return all;
}

TextExchange exchange_in(Store& store, int rank, int size, const EngineOptions& options) {
  return [&store, rank, size, &options](const std::string& text) {
    const auto key = [&](int of) { return fmt::format("{}/exchange/{}", options.name, of); };
    store.set(key(rank), text);
    const Deadline deadline = deadline_after(options.timeout_s);
    std::vector<std::string> texts;
    while (static_cast<int>(texts.size()) < size) {
      const int peer = static_cast<int>(texts.size());
      try {
        texts.push_back(store.get(key(peer), std::min(kStoreLook_s, options.timeout_s)));
        continue;
      } catch (const CommTimeout&) {
        if (has_passed(deadline)) {
          throw CommTimeout(
              fmt::format("rank {} did not join within {} s", peer, options.timeout_s));
        }
      }
      if (options.check) options.check();
    }
    return texts;
  };
}

std::unique_ptr<Communicator> make_library_communicator(const std::string& backend,
                                                        std::unique_ptr<LibraryEngine> engine,
                                                        const EngineOptions& options) {
  return std::make_unique<LibraryCommunicator>(backend, std::move(engine), options);
}

}  // namespace ddpbench::comm
