// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// An asynchronous device, as CUDA's are. Its streams hold their work back and run it when the host
// waits or looks, in an order among the streams that a seed decides. Memory that the host touches
// too early or too late shows in the results.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "kernels/runtime/device.h"

namespace ddpbench::test {

class QueuedStream;

class QueuedDevice final : public Device {
 public:
  explicit QueuedDevice(unsigned seed) : random_(seed) {}

  double clock_s = 100;    // grows with every piece of work
  double work_s = 1e-3;    // duration of a piece of work
  double host_call_s = 0;  // time that the host needs to queue one

  DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  int index() const noexcept override { return 0; }
  std::string name() const override { return "queued:0"; }
  std::string model() const override { return "queued"; }
  int thread_count() const noexcept override { return 1; }
  void bind_calling_thread() override {}
  Buffer allocate(std::size_t bytes, MemoryCategory category, Sharing sharing) override;
  bool is_host_accessible() const noexcept override { return false; }
  Buffer allocate_staging(std::size_t bytes) override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;
  void copy(Stream& stream, BufferView dst, BufferView src) override;
  double now_s() const override { return clock_s; }
  MemoryUsage memory() const override { return {}; }

  // Runs one piece of work of a stream that can go on; returns false when none can.
  bool run_one();

 private:
  friend class QueuedStream;
  std::mt19937 random_;
  std::vector<QueuedStream*> streams_;
};

// Queues `work` on a stream of a QueuedDevice.
void queue_work(Stream& stream, std::function<void()> work);
// Queues work that never starts, as if behind a kernel that hangs.
void queue_work_after_nothing(Stream& stream);

}  // namespace ddpbench::test
