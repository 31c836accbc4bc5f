// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A CPU device that reports a given free memory of its driver, as GPUs do.
#pragma once

#include <memory>

#include "kernels/runtime/cpu_device.h"

namespace ddpbench::nn {

class SmallDevice final : public Device {
 public:
  explicit SmallDevice(std::size_t free_bytes) : free_bytes_(free_bytes) {}

  DeviceKind kind() const noexcept override { return cpu_->kind(); }
  int index() const noexcept override { return 0; }
  std::string name() const override { return "small:0"; }
  std::string model() const override { return cpu_->model(); }
  int thread_count() const noexcept override { return 1; }
  void bind_calling_thread() override {}
  Buffer allocate(std::size_t bytes, MemoryCategory category, Sharing sharing) override {
    ++allocations;
    return cpu_->allocate(bytes, category, sharing);
  }
  bool is_host_accessible() const noexcept override { return true; }
  Buffer allocate_staging(std::size_t bytes) override { return cpu_->allocate_staging(bytes); }
  std::unique_ptr<Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<Event> make_event() override { return cpu_->make_event(); }
  void copy(Stream& stream, BufferView dst, BufferView src) override {
    cpu_->copy(stream, dst, src);
  }
  double now_s() const override { return cpu_->now_s(); }
  MemoryUsage memory() const override { return cpu_->memory(); }
  std::size_t allocation_bytes(std::size_t bytes, Sharing sharing) const noexcept override {
    return cpu_->allocation_bytes(bytes, sharing);
  }
  std::optional<DriverMemory> driver_memory() const override {
    return DriverMemory{.used_bytes = 0, .free_bytes = free_bytes_};
  }

  int allocations = 0;

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device({});
  std::size_t free_bytes_;
};

}  // namespace ddpbench::nn
