// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/gloo/loop_calls.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/exhausted.h"

namespace ddpbench::comm {

LoopCalls::LoopCalls(std::shared_ptr<gloo::transport::tcp::Device> device)
    : device_(std::move(device)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw_system_error<CommError>("cannot make a bell for Gloo's thread", errno);
  device_->registerDescriptor(bell_.get(), EPOLLIN, this);
}

// Gloo's thread has left the handler, or has ended, when this returns.
LoopCalls::~LoopCalls() {
  keep_awake();
  if (device_.use_count() > 1) device_->unregisterDescriptor(bell_.get(), this);
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

// A bell that nobody answers rings on.
void LoopCalls::keep_awake() {
  awake_ = true;
  ::eventfd_write(bell_.get(), 1);
}

void LoopCalls::handleEvents(int /*events*/) {
  if (awake_) return;
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
