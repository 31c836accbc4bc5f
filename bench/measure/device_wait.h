// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// DeviceWait: makes a rank wait for its device so that a hanging kernel ends the run.
// Stream::synchronize has no deadline: call it only for work that was waited for here.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::bench {

struct DeviceWaitOptions {
  int rank = 0;          // for messages, like `device`
  std::string device;    // "cuda:0"
  double limit_s = 1e6;  // limit of each wait
};

class DeviceWait {
 public:
  DeviceWait() = default;
  explicit DeviceWait(DeviceWaitOptions options) : options_(std::move(options)) {}

  // The rank's step, counted over verification, warm-up and training. Messages name it.
  void at_step(std::uint64_t step) noexcept { step_ = step; }

  // Returns when the device has reached `event`. Throws CommTimeout beyond the limit (peers may be
  // to blame), and the device's own errors. Thread-safe.
  void until(const Event& event, std::string_view what) {
    if (event.reached()) return;
    const comm::Deadline deadline = comm::deadline_after(options_.limit_s);
    while (!event.reached()) {
      if (comm::has_passed(deadline)) {
        gave_up_ = true;
        throw CommTimeout(fmt::format(
            "rank {}, step {}: waited {} s for {} on {}, which did not finish; the device hangs, "
            "or --timeout is too short for this work",
            options_.rank, step_.load(), options_.limit_s, what, options_.device));
      }
      std::this_thread::yield();
    }
  }

  // Whether a wait was given up: calls that free the device's memory might then never return.
  bool gave_up() const noexcept { return gave_up_; }

 private:
  DeviceWaitOptions options_;
  std::atomic<std::uint64_t> step_{0};
  std::atomic<bool> gave_up_{false};
};

}  // namespace ddpbench::bench
