// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/queue/executor.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/runtime/cpu_topology.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

namespace {

// A planted delay: how much of it is slept in short sleeps, without looking at peers.
constexpr double kFineHold_s = 0.1;
constexpr auto kFineSleep = std::chrono::milliseconds(1);

// After its deadline a wait leaves the thread that executes so long to fail at a deadline of its
// own: it can tell for which rank it waits.
constexpr double kLastWords_s = 0.5;

std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown failure";
  }
}

}  // namespace

// Executing ends when the role goes out of scope, also by an exception.
class Executor::Role {
 public:
  explicit Role(Executor& executor)
      : executor_(executor),
        held_(!executor.role_taken_.exchange(true, std::memory_order_seq_cst)) {}
  ~Role() {
    if (!held_) return;
    executor_.role_taken_.store(false, std::memory_order_seq_cst);
    executor_.announce();
    if (executor_.background_wanted()) executor_.wake_thread();
  }
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  Executor& executor_;
  const bool held_;
};

Executor::Executor(std::unique_ptr<Engine> engine, WorldOptions options)
    : options_(std::move(options)), engine_(std::move(engine)) {}

void Executor::shut_down() noexcept {
  if (stopping_.exchange(true)) return;
  engine_->stop();
  wake_thread();
  if (thread_.joinable()) thread_.join();
  engine_->leave();
  fail_all(nullptr, std::make_exception_ptr(CommError(engine_->prefix(nullptr) +
                                                      "the communicator was destroyed before the "
                                                      "operation was done")));
}

// ---- issuing and waiting ----

std::shared_ptr<QueuedWork> Executor::issue(const Operation& operation, Start start) {
  engine_->throw_if_aborted(&operation);
  // It keeps freed memory for the next work. Never destroyed: works may outlive all else.
  static auto& pool = *new std::pmr::synchronized_pool_resource;
  auto work = std::allocate_shared<QueuedWork>(std::pmr::polymorphic_allocator<QueuedWork>(&pool),
                                               shared_from_this(), operation, start);
  if (const std::uint64_t last = queue_.add(work)) start_background(last);
  return work;
}

void Executor::group_end() {
  if (const std::uint64_t last = queue_.group_end()) start_background(last);
}

void Executor::start_background(std::uint64_t last) {
  std::uint64_t before = background_up_to_.load(std::memory_order_relaxed);
  while (before < last && !background_up_to_.compare_exchange_weak(before, last)) {
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  engine_->wake_waiter();  // the thread may be waiting for a message
  wake_thread();
}

void Executor::complete(QueuedWork& work, Deadline deadline) {
  ensure(work.finished() || work.sequence() != 0,
         "a work of a group that is still open is awaited");
  execute_until([&] { return work.finished(); }, work.sequence(), &work.operation(), deadline);
  work.rethrow();
}

void Executor::execute_until(PredicateRef done, std::uint64_t last, const Operation* operation,
                             Deadline deadline) {
  while (!done()) {
    if (const Role role{*this}) {
      drive(done, last, operation, deadline);
      continue;
    }
    // Another thread executes. Between works it gives way to a claimant.
    claimants_.fetch_add(1, std::memory_order_seq_cst);
    engine_->wake_waiter();
    wait_locally(deadline, [&] { return done() || !role_taken_.load(std::memory_order_seq_cst); });
    claimants_.fetch_sub(1, std::memory_order_seq_cst);
    if (background_wanted()) wake_thread();  // it may have given way to a claim that is gone
    if (done() || !has_passed(deadline)) continue;
    wait_locally(deadline_after(kLastWords_s), done);
    if (!done()) {
      throw CommTimeout(
          engine_->prefix(operation) +
              "deadline passed while another thread executes it or an earlier operation",
          operation_name(operation));
    }
  }
}

void Executor::while_idle(const std::function<void()>& change) {
  const Deadline deadline = deadline_after(timeout_s());
  while (!has_passed(deadline)) {
    if (const Role role{*this}) return change();
    wait_locally(deadline, [&] { return !role_taken_.load(std::memory_order_seq_cst); });
  }
  throw CommTimeout(engine_->prefix(nullptr) +
                    "operations are still running; memory cannot change");
}

void Executor::abort(const std::string& reason) noexcept {
  engine_->abort(reason);
  announce();
}

void Executor::on_complete(const QueuedWork& work) {
  if (work.operation().is_message() && work.start() == Start::now) {
    background_messages_.fetch_sub(1, std::memory_order_seq_cst);
  }
  if (options_.watch != nullptr) options_.watch->done(work.operation());
  announce();
  if (options_.progress) options_.progress();
}

// ---- handing the role from thread to thread ----

void Executor::announce() noexcept {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  if (local_sleepers_.load(std::memory_order_seq_cst) > 0) {
    futex_wake_all(changes_, FutexScope::process);
  }
}

// Waits for another thread of this rank. It does not spin: that thread often shares this core.
template <typename Predicate>
void Executor::wait_locally(Deadline deadline, Predicate&& predicate) {
  constexpr int kYields = 4;
  for (int i = 0; i < kYields; ++i) {
    if (predicate()) return;
    ::sched_yield();
  }
  while (true) {
    local_sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = changes_.load(std::memory_order_seq_cst);
    const bool done = predicate() || has_passed(deadline);
    if (!done) futex_wait(changes_, seen, deadline, FutexScope::process);
    local_sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    if (done) return;
  }
}

// ---- executing ----

void Executor::run_queue(std::uint64_t last, Deadline deadline, Waiter waiter) {
  while (queue_.holds_any()) {
    std::shared_ptr<QueuedWork> work = queue_.take(last);
    if (!work) return;
    if (work->operation().is_message()) {
      start_message(std::move(work), waiter);
    } else {
      run_collective(*work, deadline, waiter);
    }
  }
}

void Executor::start_message(std::shared_ptr<QueuedWork> work, Waiter waiter) {
  std::erase_if(in_flight_, [](const Begun& one) { return one.message->finished(); });
  try {
    note_begin(work->operation(), waiter);
  } catch (...) {
    return fail_all(work.get(), std::current_exception());
  }
  if (work->start() == Start::now) background_messages_.fetch_add(1, std::memory_order_seq_cst);
  in_flight_.push_back({work, deadline_after(timeout_s())});
  engine_->start_message(std::move(work));
}

// Holds the call up first where that is planted. Throws what waiting throws.
void Executor::note_begin(const Operation& operation, Waiter waiter) {
  if (options_.watch == nullptr) return;
  const double hold_s = options_.watch->hold_up_s();
  if (hold_s > 0) {
    const double until_s = steady_s() + hold_s;
    const auto is_over = [&](double before_s) {
      return stopping_.load(std::memory_order_seq_cst) || steady_s() + before_s >= until_s;
    };
    // Engines sleep long between two looks: they leave the last bit to a finer sleep.
    engine_->await(nullptr, deadline_after(hold_s), waiter, [&] { return is_over(kFineHold_s); });
    while (!is_over(0)) std::this_thread::sleep_for(kFineSleep);
  }
  options_.watch->begun(operation);
}

void Executor::run_collective(QueuedWork& work, Deadline deadline, Waiter waiter) {
  try {
    note_begin(work.operation(), waiter);
    const WorkTimes times = engine_->run_collective(work.operation(), deadline, waiter);
    work.complete(times);
  } catch (...) {
    fail_all(&work, std::current_exception());
  }
}

// Throws CommTimeout; other failures end in the works, but where none is named.
void Executor::drive(PredicateRef done, std::uint64_t last, const Operation* operation,
                     Deadline deadline) {
  if (has_passed(deadline)) {
    throw CommTimeout(engine_->prefix(operation) + "deadline passed before it began",
                      operation_name(operation));
  }
  run_queue(last, deadline, Waiter::caller);
  if (done()) return;
  try {  // a deadline leaves messages in flight; all other failures end the communicator
    engine_->await(operation, deadline, Waiter::caller, done);
  } catch (const CommTimeout&) {
    throw;
  } catch (...) {
    fail_all(nullptr, std::current_exception());
    if (operation == nullptr) throw;
  }
}

void Executor::fail_all(QueuedWork* culprit, const std::exception_ptr& error) noexcept {
  if (!stopping_.load(std::memory_order_seq_cst)) engine_->abort(what_of(error));
  if (culprit) culprit->fail(error);
  engine_->drop_messages();
  for (const Begun& one : in_flight_) {
    if (!one.message->finished()) one.message->fail(error);
  }
  in_flight_.clear();
  for (const auto& work : queue_.take_all()) work->fail(error);
  background_messages_.store(0, std::memory_order_seq_cst);
  announce();
}

// ---- the communication thread ----

// Of the messages that were issued to start at once, if there are any.
std::optional<Deadline> Executor::earliest_deadline() {
  std::optional<Deadline> earliest;
  for (const Begun& one : in_flight_) {
    if (one.message->finished() || one.message->start() != Start::now) continue;
    earliest = std::min(earliest.value_or(one.deadline), one.deadline);
  }
  return earliest;
}

void Executor::drive_background() {
  while (!stopping_.load(std::memory_order_seq_cst)) {
    run_queue(background_up_to_.load(std::memory_order_seq_cst), deadline_after(timeout_s()),
              Waiter::communication_thread);
    const std::optional<Deadline> deadline = earliest_deadline();
    if (!deadline || claimants_.load(std::memory_order_seq_cst) > 0) return;
    engine_->await(nullptr, *deadline, Waiter::communication_thread, [&] {
      return queue_waits() || background_messages_.load(std::memory_order_seq_cst) == 0 ||
             claimants_.load(std::memory_order_seq_cst) > 0;
    });
  }
}

void Executor::serve() {
  ::pthread_setname_np(::pthread_self(), "ddpbench-comm");
  // It fails for cores that are not ours. The thread then runs on any core of the process.
  if (!options_.thread_cores.empty()) pin_calling_thread(options_.thread_cores);
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const std::uint32_t seen = thread_bell_.load(std::memory_order_seq_cst);
    if (background_wanted() && claimants_.load(std::memory_order_seq_cst) == 0) {
      if (const Role role{*this}) {
        try {
          drive_background();
        } catch (...) {
          fail_all(nullptr, std::current_exception());
        }
        continue;
      }
    }
    futex_wait(thread_bell_, seen, FutexScope::process);
  }
}

bool Executor::background_wanted() noexcept {
  return background_messages_.load(std::memory_order_seq_cst) > 0 || queue_waits();
}

bool Executor::queue_waits() noexcept {
  return queue_.holds(background_up_to_.load(std::memory_order_seq_cst));
}

void Executor::wake_thread() noexcept {
  thread_bell_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(thread_bell_, FutexScope::process);
}

std::uint64_t WorkQueue::add(const std::shared_ptr<QueuedWork>& work) {
  if (group_depth_ > 0) {
    group_.push_back(work);
    return 0;
  }
  enter(work);
  return work->start() == Start::now ? work->sequence() : 0;
}

std::uint64_t WorkQueue::group_end() {
  ensure(group_depth_ > 0, "group_end without group_start");
  if (--group_depth_ > 0) return 0;
  std::uint64_t last = 0;
  for (const bool messages : {true, false}) {
    for (const std::shared_ptr<QueuedWork>& work : group_) {
      if (work->operation().is_message() != messages) continue;
      enter(work);
      if (work->start() == Start::now) last = work->sequence();
    }
  }
  group_.clear();
  return last;
}

void WorkQueue::enter(const std::shared_ptr<QueuedWork>& work) {
  const std::lock_guard lock(mutex_);
  work->set_sequence(issued_.load(std::memory_order_relaxed) + 1);
  works_.push_back(work);
  issued_.store(work->sequence(), std::memory_order_seq_cst);
}

std::shared_ptr<QueuedWork> WorkQueue::take(std::uint64_t last) {
  const std::lock_guard lock(mutex_);
  if (works_.empty()) return nullptr;
  std::shared_ptr<QueuedWork> front = works_.front();
  if (front->sequence() > last && !front->operation().is_message()) return nullptr;
  works_.pop_front();
  taken_.store(front->sequence(), std::memory_order_seq_cst);
  return front;
}

std::vector<std::shared_ptr<QueuedWork>> WorkQueue::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<QueuedWork>> rest(works_.begin(), works_.end());
  works_.clear();
  taken_.store(issued_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  return rest;
}

// ---- a work ----

// A CPU stream runs inline: its later work is what the caller does next.
void QueuedWork::wait(Stream& stream) {
  ensure(stream.device().kind() == DeviceKind::cpu,
         "work on host memory is ordered with streams of CPU devices only");
  synchronize(std::nullopt);
}

void QueuedWork::synchronize(std::optional<Deadline> deadline) {
  if (!deadline && finished()) return rethrow();
  executor_->complete(*this, deadline ? *deadline : deadline_after(executor_->timeout_s()));
}

WorkTimes QueuedWork::times() const {
  ensure(finished(), "times of a work that is not done");
  return times_;
}

void QueuedWork::complete(bool arrival_told) {
  if (arrival_told) peers_arrived();
  WorkTimes times = times_;
  if (!arrival_told) times.arrived_s = times.start_s;
  times.arrived_told = arrival_told;
  complete(times);
}

void QueuedWork::complete(const WorkTimes& times) {
  times_ = times;
  times_.end_s = steady_s();
  finished_.store(true, std::memory_order_seq_cst);
  executor_->on_complete(*this);
}

void QueuedWork::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  finished_.store(true, std::memory_order_seq_cst);
}

// ---- a communicator ----

QueuedCommunicator::QueuedCommunicator(std::string backend, int rank, int size,
                                       std::unique_ptr<Engine> engine, const WorldOptions& options)
    : Communicator(rank, size),
      backend_(std::move(backend)),
      engine_(engine.get()),
      executor_(std::make_shared<Executor>(std::move(engine), options)) {}

Work QueuedCommunicator::issue(const Operation& operation, const CallOptions& options) {
  // A CPU stream runs inline: what is queued there now is done.
  ensure(!options.after || options.after->device().kind() == DeviceKind::cpu,
         "the backend {} runs after streams of CPU devices", backend_);
  return Work(executor_->issue(operation, options.start));
}

}  // namespace ddpbench::comm
