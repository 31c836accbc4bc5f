// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device: memory from cudaMalloc, asynchronous streams, times from events.
#include "kernels/runtime/cuda_device.h"

#include <cuda_runtime_api.h>

#include "base/clock.h"
#include "kernels/runtime/cuda/cuda_clock.h"
#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/cuda_memory.h"
#include "kernels/runtime/cuda/cuda_stream.h"
#include "kernels/runtime/cuda/current_device.h"
#include "kernels/runtime/cuda/native_device.h"

namespace ddpbench {
namespace cuda {
namespace {

class CudaDevice final : public NativeDevice {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options) : options_(options) {
    check(cudaSetDevice(options_.ordinal), "cudaSetDevice");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, options_.ordinal), "cudaGetDeviceProperties");
    model_ = properties.name;
    uuid_ = uuid_text(properties.uuid);
    clock_ = std::make_shared<CudaClock>(options_.ordinal);
  }

  int ordinal() const noexcept override { return options_.ordinal; }
  std::shared_ptr<CudaClock> clock() const override { return clock_; }

  DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  int index() const noexcept override { return options_.index; }
  std::string name() const override { return fmt::format("cuda:{}", options_.index); }
  std::string model() const override { return model_; }
  int thread_count() const noexcept override { return 1; }

  void bind_calling_thread() override { check(cudaSetDevice(options_.ordinal), "cudaSetDevice"); }

  Buffer allocate(std::size_t bytes, MemoryCategory category, Sharing sharing) override {
    return Buffer(
        allocate_device_memory({name(), options_.ordinal, bytes, category, sharing}, counter_));
  }
  bool is_host_accessible() const noexcept override { return false; }
  Buffer allocate_staging(std::size_t bytes) override {
    const CurrentDevice current(options_.ordinal);
    return Buffer(allocate_pinned_memory(name(), bytes));
  }

  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CudaStream>(*this, options_.ordinal);
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CudaEvent>(options_.ordinal, clock_);
  }

  void copy(Stream& stream, BufferView dst, BufferView src) override {
    ensure(dst.bytes == src.bytes, "{}: copy of {} bytes into {}", name(), src.bytes, dst.bytes);
    if (src.bytes == 0) return;
    const CurrentDevice current(options_.ordinal);
    check_with(
        cudaMemcpyAsync(dst.data, src.data, src.bytes, cudaMemcpyDefault, native_stream(stream)),
        [&] { return fmt::format("{}: copy of {} bytes", name(), src.bytes); });
  }

  double now_s() const override { return steady_s(); }
  void calibrate_clock() override { clock_->calibrate(); }
  MemoryUsage memory() const override { return counter_->usage(); }
  std::size_t allocation_bytes(std::size_t bytes, Sharing sharing) const noexcept override {
    return allocated_bytes(bytes, sharing);
  }

  std::optional<DriverMemory> driver_memory() const override {
    const CurrentDevice current(options_.ordinal);
    std::size_t free_bytes = 0, total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    return DriverMemory{.used_bytes = total_bytes - free_bytes, .free_bytes = free_bytes};
  }
  std::string memory_pool() const override { return uuid_; }

 private:
  CudaDeviceOptions options_;
  std::string model_, uuid_;
  std::shared_ptr<CudaClock> clock_;
  std::shared_ptr<MemoryCounter> counter_ = std::make_shared<MemoryCounter>();
};

}  // namespace

NativeDevice& native_device(Device& device) {
  auto* const native = dynamic_cast<NativeDevice*>(&device);
  ensure(native != nullptr, "{} is no CUDA device", device.name());
  return *native;
}

}  // namespace cuda

std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options) {
  const CudaProbe probe = probe_cuda();
  if (options.ordinal < 0 || static_cast<std::size_t>(options.ordinal) >= probe.devices.size()) {
    throw UnavailableError(fmt::format(
        "there is no GPU {}: {}", options.ordinal,
        probe.reason.empty() ? fmt::format("{} are here", probe.devices.size()) : probe.reason));
  }
  return std::make_unique<cuda::CudaDevice>(options);
}

}  // namespace ddpbench
