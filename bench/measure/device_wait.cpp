// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/device_wait.h"

#include <thread>

#include "bench/host/terminal.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::bench {

void DeviceWait::until(const Event& event, std::string_view what) {
  if (event.reached()) return;
  const comm::Deadline deadline = comm::deadline_after(options_.limit_s);
  while (!event.reached()) {
    if (options_.interrupted && options_.interrupted()) {
      gave_up_ = true;
      throw Interrupted();
    }
    if (comm::has_passed(deadline)) {
      gave_up_ = true;
      throw CommTimeout(fmt::format(
          "rank {}, step {}: waited {} s for {} on {}, which did not finish; the device hangs, or "
          "--timeout is too short for this work",
          options_.rank, step_.load(), options_.limit_s, what, options_.device));
    }
    std::this_thread::yield();
  }
}

}  // namespace ddpbench::bench
