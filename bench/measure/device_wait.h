// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// DeviceWait: how a rank waits for its device, so that a kernel that hangs, or an interrupt, ends
// the run. Stream::synchronize has no deadline: ask it only for what was waited for here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "kernels/runtime/device.h"

namespace ddpbench::bench {

struct DeviceWaitOptions {
  int rank = 0;                       // for messages, as `device`
  std::string device;                 // "cuda:0"
  double limit_s = 1e6;               // of every wait
  std::function<bool()> interrupted;  // may be empty; called by every thread that waits
};

class DeviceWait {
 public:
  DeviceWait() = default;
  explicit DeviceWait(DeviceWaitOptions options) : options_(std::move(options)) {}

  // The step that the rank is in, counted over verification, warm-up and training: for messages.
  void at_step(std::uint64_t step) noexcept { step_ = step; }

  // Returns when the device has reached `event`. Throws CommTimeout (of kind "timeout": peers may
  // be to blame) naming rank, step and `what` when that takes longer than the limit, Interrupted
  // when the user does not want to wait any more, and the device's own errors. Thread-safe.
  void until(const Event& event, std::string_view what);

  // Whether a wait was given up. The device may then be at work for ever, and with it all that
  // waits for it to be idle: the calls that give back its memory and its streams do.
  bool gave_up() const noexcept { return gave_up_; }

 private:
  DeviceWaitOptions options_;
  std::atomic<std::uint64_t> step_{0};
  std::atomic<bool> gave_up_{false};
};

}  // namespace ddpbench::bench
