// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A device whose clock the test moves, to test how steps are measured.
#pragma once

#include <memory>

#include "kernels/runtime/device.h"

namespace ddpbench::test {

// Its streams run inline; recording an event reads the fake clock and moves it by record_cost_s.
class FakeDevice : public Device {
 public:
  double clock_s = 100;
  double record_cost_s = 0;  // what an observation costs

  void pass(double seconds) { clock_s += seconds; }

  DeviceKind kind() const noexcept override { return DeviceKind::cpu; }
  int index() const noexcept override { return 0; }
  std::string name() const override { return "fake:0"; }
  std::string model() const override { return "fake"; }
  int thread_count() const noexcept override { return 1; }
  void bind_calling_thread() override {}
  Buffer allocate(std::size_t, MemoryCategory, Sharing) override { return {}; }
  bool is_host_accessible() const noexcept override { return true; }
  Buffer allocate_staging(std::size_t) override { return {}; }
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;
  void copy(Stream&, BufferView, BufferView) override {}
  double now_s() const override { return clock_s; }
  MemoryUsage memory() const override { return {}; }
};

}  // namespace ddpbench::test
