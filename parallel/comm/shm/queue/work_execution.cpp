// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WorkQueue's other half: executing operations, on a caller's thread or on the communication
// thread.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "parallel/comm/shm/queue/work_queue.h"

namespace ddpbench::comm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kForEver_s = 1e9;

// Measured (bench/micro, comm_bench): with a core a rank, spinning some microseconds beats
// yielding; with more ranks than cores whoever spins only delays the peer that it waits for.
WaitPolicy caller_policy(int ranks) {
  const bool core_each = ranks <= ::sysconf(_SC_NPROCESSORS_ONLN);
  return {core_each ? 2000 : 20, 2e-3};
}

// The communication thread usually shares its core with the rank's computing thread: it gives it
// back at once, and is woken faster than a yielding thread would get its next turn.
WaitPolicy thread_policy(int ranks) {
  const bool core_each = ranks <= ::sysconf(_SC_NPROCESSORS_ONLN);
  return {core_each ? 500 : 20, 0};
}

void pin_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  // Cores that are not ours: the thread then runs wherever the process may.
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

}  // namespace

WorkQueue::WorkQueue(std::shared_ptr<ControlBlock> block, int rank, const RingOptions& options)
    : options_(options),
      peers_(block, rank),
      memory_(rank, block->scope()),
      transfers_(peers_, memory_, tuners_,
                 [this](RingWork& work) {
                   work.complete();
                   finished(work);
                 }),
      caller_policy_(caller_policy(block->size())),
      thread_policy_(thread_policy(block->size())),
      sources_(static_cast<std::size_t>(block->size())) {
  peers_.set_background(&transfers_);
}

WorkQueue::~WorkQueue() { shut_down(); }

void WorkQueue::shut_down() noexcept {
  if (stopping_.exchange(true)) return;
  peers_.stop();
  thread_bell_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(thread_bell_, FutexScope::process);
  if (thread_.joinable()) thread_.join();
  peers_.leave();
  fail_all(nullptr, std::make_exception_ptr(CommError(peers_.prefix(nullptr) +
                                                      "the communicator was destroyed before the "
                                                      "operation was done")));
}

void WorkQueue::finished(RingWork& work) {
  if (work.operation().is_message() && work.start() == Start::now) {
    background_messages_.fetch_sub(1, std::memory_order_seq_cst);
  }
  announce();
  if (options_.progress) options_.progress();
}

void WorkQueue::run_queue(std::uint64_t last, Deadline deadline, const WaitPolicy& policy) {
  while (started_.load(std::memory_order_seq_cst) < issued_.load(std::memory_order_seq_cst)) {
    const std::shared_ptr<RingWork> work = pop(last);
    if (!work) return;
    if (!work->operation().is_message()) {
      run_collective(*work, deadline, policy);
      continue;
    }
    if (work->start() == Start::now) background_messages_.fetch_add(1, std::memory_order_seq_cst);
    transfers_.start(work, deadline_after(timeout_s()));
  }
}

void WorkQueue::run_collective(RingWork& work, Deadline deadline, const WaitPolicy& policy) {
  try {
    const Operation& o = work.operation();
    Collective c(peers_, memory_, o,
                 {++collectives_, deadline, policy, options_.all_reduce, sources_, &tuners_});
    if (c.size() == 1) {
      run_alone(o);
    } else if (is_small(o, c.size())) {
      run_small(c);
    } else {
      switch (o.kind) {
        case OperationKind::all_reduce:
        case OperationKind::reduce:
          run_all_reduce(c);
          break;
        case OperationKind::reduce_scatter:
          run_reduce_scatter(c);
          break;
        case OperationKind::all_gather:
          run_all_gather(c);
          break;
        case OperationKind::broadcast:
          run_broadcast(c);
          break;
        case OperationKind::scatter:
          run_scatter(c);
          break;
        case OperationKind::gather:
          run_gather(c);
          break;
        default:
          ensure(false, "no collective: {}", describe(o));
      }
    }
    work.complete(c.started_s(), c.arrived_s());
    finished(work);
  } catch (...) {
    fail_all(&work, std::current_exception());
  }
}

void WorkQueue::run_alone(const Operation& operation) {
  if (operation.out.data != operation.in.data && operation.out.bytes() > 0) {
    std::memcpy(operation.out.data, operation.in.data, operation.out.bytes());
  }
}

// Executes until the work is done. Throws CommTimeout only; all other failures end in the work.
void WorkQueue::drive(RingWork& work, Deadline deadline) {
  if (Clock::now() >= deadline) {
    throw CommTimeout(peers_.prefix(&work.operation()) + "deadline passed before it began",
                      operation_name(&work.operation()));
  }
  run_queue(work.sequence(), deadline, caller_policy_);
  if (work.finished()) return;
  drive_messages(
      deadline, [&] { return work.finished(); }, &work.operation());
}

// A deadline leaves messages under way; all other failures end the communicator.
void WorkQueue::drive_messages(Deadline deadline, PredicateRef done, const Operation* operation) {
  try {
    const int peer = operation ? operation->root : PeerGroup::kAnybody;
    peers_.wait(peer, {operation, 0, deadline}, caller_policy_, [&] {
      transfers_.advance();
      return done();
    });
  } catch (const CommTimeout&) {
    throw;
  } catch (...) {
    fail_all(nullptr, std::current_exception());
  }
}

void WorkQueue::run_messages() {
  try {
    run_queue(0, {}, caller_policy_);
    transfers_.advance();
    if (peers_.aborted()) peers_.throw_aborted(nullptr);
  } catch (...) {
    fail_all(nullptr, std::current_exception());
  }
}

void WorkQueue::drive_background() {
  while (!stopping_.load(std::memory_order_seq_cst)) {
    run_queue(background_up_to_.load(std::memory_order_seq_cst), deadline_after(timeout_s()),
              thread_policy_);
    const std::optional<Deadline> deadline = transfers_.earliest_deadline();
    if (!deadline || claimants_.load(std::memory_order_seq_cst) > 0) return;
    peers_.wait(PeerGroup::kAnybody, {nullptr, 0, *deadline}, thread_policy_, [&] {
      transfers_.advance();
      return queue_waits() || background_messages_.load(std::memory_order_seq_cst) == 0 ||
             claimants_.load(std::memory_order_seq_cst) > 0;
    });
  }
}

void WorkQueue::fail_all(RingWork* culprit, std::exception_ptr error) noexcept {
  std::string reason = "unknown failure";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    reason = e.what();
  } catch (...) {
  }
  if (!stopping_.load(std::memory_order_seq_cst)) peers_.abort(reason);
  if (culprit) culprit->fail(error);
  for (const std::shared_ptr<RingWork>& work : transfers_.take_all()) work->fail(error);
  std::vector<std::shared_ptr<RingWork>> queued;
  {
    const std::lock_guard lock(queue_mutex_);
    queued.assign(queue_.begin() + static_cast<std::ptrdiff_t>(head_), queue_.end());
    queue_.clear();
    head_ = 0;
    started_.store(issued_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  }
  for (const std::shared_ptr<RingWork>& work : queued) work->fail(error);
  background_messages_.store(0, std::memory_order_seq_cst);
  announce();
}

void WorkQueue::serve() {
  ::pthread_setname_np(::pthread_self(), "ddpbench-comm");
  pin_to(options_.thread_cores);
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const std::uint32_t seen = thread_bell_.load(std::memory_order_seq_cst);
    if (background_wanted() && claimants_.load(std::memory_order_seq_cst) == 0 && try_role()) {
      try {
        drive_background();
      } catch (...) {
        fail_all(nullptr, std::current_exception());
      }
      release_role();
    } else {
      futex_wait(thread_bell_, seen, deadline_after(kForEver_s), FutexScope::process);
    }
  }
}

bool WorkQueue::background_wanted() noexcept {
  return background_messages_.load(std::memory_order_seq_cst) > 0 || queue_waits();
}

bool WorkQueue::queue_waits() noexcept {
  return started_.load(std::memory_order_seq_cst) <
         background_up_to_.load(std::memory_order_seq_cst);
}

void WorkQueue::wake_thread() noexcept {
  thread_bell_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(thread_bell_, FutexScope::process);
}

}  // namespace ddpbench::comm
