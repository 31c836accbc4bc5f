// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/interpreter_lock.h"

#include "base/clock.h"

namespace ddpbench::bench {

void InterpreterLock::launch() {
  const std::lock_guard lock(mutex_);
  spend_cpu_s(launch_s_);
}

LaunchedCalls::LaunchedCalls(InterpreterLock& lock, const std::vector<std::string>& names,
                             nn::LayerObserver* also)
    : lock_(lock), also_(also) {
  const auto contains = [](const std::string& name, const char* part) {
    return name.find(part) != std::string::npos;
  };
  for (const std::string& name : names) {
    is_launched_.push_back(!contains(name, ", micro-batch ") || contains(name, ", micro-batch 1 "));
  }
}

void LaunchedCalls::begin_call(std::size_t call, Stream& stream) {
  if (is_launched_.at(call)) lock_.launch();
  if (also_ != nullptr) also_->begin_call(call, stream);
}

void LaunchedCalls::end_call(std::size_t call, Stream& stream) {
  if (also_ != nullptr) also_->end_call(call, stream);
}

}  // namespace ddpbench::bench
