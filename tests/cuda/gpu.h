// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The fixture of tests that need a GPU. They skip with the reason where there is none.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/cuda_device.h"

namespace ddpbench::test {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const CudaProbe probe = probe_cuda();
    if (probe.devices.empty()) GTEST_SKIP() << "needs a GPU: " << probe.reason;
    device_ = make_cuda_device({.index = 0, .ordinal = 0});
    device_->bind_calling_thread();
    stream_ = device_->make_stream();
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }

  template <typename T>
  Buffer upload(std::span<const T> values, MemoryCategory category = MemoryCategory::workspace) {
    Buffer buffer = device_->allocate(values.size_bytes(), category);
    // The copy only reads its source, but BufferView has no constant form.
    auto* source = reinterpret_cast<std::byte*>(const_cast<T*>(values.data()));
    device_->copy(*stream_, buffer.view(), {source, values.size_bytes()});
    stream_->synchronize();
    return buffer;
  }
  template <typename T>
  Buffer upload(const std::vector<T>& values) {
    return upload(std::span<const T>(values));
  }
  template <typename T>
  std::vector<T> download(const BufferView& view) {
    std::vector<T> values(view.bytes / sizeof(T));
    device_->copy(*stream_, {reinterpret_cast<std::byte*>(values.data()), view.bytes}, view);
    stream_->synchronize();
    return values;
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace ddpbench::test
