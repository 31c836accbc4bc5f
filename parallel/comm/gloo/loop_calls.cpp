// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/loop_calls.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "base/error.h"

namespace ddpbench::comm {
namespace {

// It leaves the alarm readable, so that the thread is called again at once.
class Deaf final : public gloo::transport::tcp::Handler {
  void handleEvents(int /*events*/) override {}
};

}  // namespace

LoopCalls::LoopCalls(std::shared_ptr<gloo::transport::tcp::Device> device)
    : device_(std::move(device)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw_system_error<CommError>("cannot make a bell for Gloo's thread", errno);
  device_->registerDescriptor(bell_.get(), EPOLLIN, this);
}

// Gloo's thread has left the handler of calls when this returns. That of the alarm has no end:
// where others still own Gloo's loop, the thread may be in it until the alarm is closed, and
// longer.
LoopCalls::~LoopCalls() {
  keep_awake();
  device_->unregisterDescriptor(bell_.get(), this);
  device_.reset();
}

void LoopCalls::add(std::function<void()> call) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = calls_.empty();
    calls_.push_back(std::move(call));
  }
  if (is_first) ::eventfd_write(bell_.get(), 1);
}

// Without a descriptor or memory for it closing takes longer, and nothing else.
void LoopCalls::keep_awake() noexcept {
  static Deaf deaf;
  if (alarm_) return;
  alarm_ = FileDescriptor(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!alarm_) return;
  try {
    device_->registerDescriptor(alarm_.get(), EPOLLIN, &deaf);
  } catch (const std::exception&) {
    alarm_ = FileDescriptor();
  }
}

void LoopCalls::handleEvents(int /*events*/) {
  eventfd_t rung = 0;
  ::eventfd_read(bell_.get(), &rung);
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(calls_);
  }
  for (const auto& call : calls) call();
}

}  // namespace ddpbench::comm
