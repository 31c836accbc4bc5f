// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ReplicaGroup: runs one function on the leading threads of several devices of this process at the
// same time. Strategies never make threads: they use the group.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ddpbench {

class Device;

class ReplicaGroup {
 public:
  virtual ~ReplicaGroup() = default;
  virtual std::size_t size() const = 0;
  // Runs work(i) on device i's leading thread for all i, concurrently, and returns when all are
  // done. Device 0's leading thread is the caller. When a call throws, `on_failure` (may be empty)
  // is called at once, so that it can abort communication that the others wait in. The first
  // exception is rethrown after all have ended.
  virtual void run(const std::function<void(std::size_t)>& work,
                   const std::function<void(const char* reason)>& on_failure = {}) = 0;
};

// Makes one thread a device, bound with Device::bind_calling_thread (the caller becomes device 0's
// leading thread). Devices outlive the group.
std::unique_ptr<ReplicaGroup> make_thread_replica_group(std::vector<Device*> devices);

}  // namespace ddpbench
