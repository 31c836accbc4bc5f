// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// DeviceWait: makes a rank wait for its device so that a hanging kernel or an interrupt ends the
// run. Stream::synchronize has no deadline: call it only for work that was waited for here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "kernels/runtime/device.h"

namespace ddpbench::bench {

struct DeviceWaitOptions {
  int rank = 0;                       // for messages, like `device`
  std::string device;                 // "cuda:0"
  double limit_s = 1e6;               // limit of each wait
  std::function<bool()> interrupted;  // may be empty; each thread that waits calls it
};

class DeviceWait {
 public:
  DeviceWait() = default;
  explicit DeviceWait(DeviceWaitOptions options) : options_(std::move(options)) {}

  // The rank's step, counted over verification, warm-up and training. Messages name it.
  void at_step(std::uint64_t step) noexcept { step_ = step; }

  // Returns when the device has reached `event`. Throws CommTimeout (of kind "timeout": peers may
  // be to blame) that names rank, step and `what` when this takes longer than the limit,
  // Interrupted when the user interrupts, and the device's own errors. Thread-safe.
  void until(const Event& event, std::string_view what);

  // Whether a wait was given up. The device may then work for ever. Calls that free its memory and
  // its streams wait for it to be idle, and would not return.
  bool gave_up() const noexcept { return gave_up_; }

 private:
  DeviceWaitOptions options_;
  std::atomic<std::uint64_t> step_{0};
  std::atomic<bool> gave_up_{false};
};

}  // namespace ddpbench::bench
