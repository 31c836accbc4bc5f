// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/end_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/error.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::bench {
namespace {

constexpr auto kLookForEnd = std::chrono::milliseconds(50);
// mpirun kills a second after it has asked ranks to end, and the report
// must be written by then.
constexpr auto kMomentToEnd = std::chrono::milliseconds(250);
// A call fails by itself at its deadline, and then needs a moment.
constexpr double kBeyondDeadline_s = 1.5;

double deadline_clock_s() {
  const auto now = comm::DeadlineClock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

HangGuard::HangGuard(double timeout_s, std::function<launch::CallMark()> pending,
                     std::function<void(const std::exception&)> end)
    : timeout_s_(timeout_s),
      pending_(std::move(pending)),
      end_(std::move(end)),
      thread_([this] { watch(); }) {}

HangGuard::~HangGuard() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void HangGuard::expect_end(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_one();
}

void HangGuard::watch() {
  std::unique_lock lock(mutex_);
  while (!error_) {
    if (changed_.wait_for(lock, kLookForEnd, [this] { return leaving_ || error_; })) break;
    if (!is_overdue()) continue;
    error_ = std::make_exception_ptr(
        CommTimeout(fmt::format("{} {} does not return: its deadline has passed",
                                to_string(seen_.kind), seen_.number),
                    comm::to_string(seen_.kind)));
  }
  if (leaving_ || changed_.wait_for(lock, kMomentToEnd, [this] { return leaving_; })) return;
  const std::exception_ptr error = error_;
  lock.unlock();
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& why) {
    end_(why);
  }
}

bool HangGuard::is_overdue() {
  const launch::CallMark pending = pending_();
  const double now_s = deadline_clock_s();
  const bool same = pending.number == seen_.number && pending.kind == seen_.kind;
  if (pending.number == 0 || !same) {
    seen_ = pending;
    seen_since_s_ = now_s;
    return false;
  }
  return timeout_s_ > 0 && now_s - seen_since_s_ > timeout_s_ + kBeyondDeadline_s;
}

EndWatch::EndWatch(std::vector<comm::Communicator*> communicators,
                   std::function<std::string()> reason, HangGuard* guard)
    : communicators_(std::move(communicators)), reason_(std::move(reason)), guard_(guard) {
  if (!communicators_.empty() || guard_ != nullptr) thread_ = std::thread([this] { watch(); });
}

EndWatch::~EndWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EndWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookForEnd, [this] { return ending_; })) {
    const std::string reason = reason_();
    if (reason.empty()) continue;
    if (guard_ != nullptr) guard_->expect_end(std::make_exception_ptr(CommError(reason)));
    lock.unlock();  // an abort may hang in the library, too
    for (comm::Communicator* one : communicators_) one->abort(reason);
    return;
  }
}

}  // namespace ddpbench::bench
