// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cpu_device.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "kernels/runtime/cpu_topology.h"
#include "kernels/runtime/memory_counter.h"
#include "kernels/runtime/memory_needs.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench {

std::string_view to_string(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

// The defaults for streams that cannot record.

void Stream::begin_recording() {
  throw InternalError(fmt::format("streams of {} cannot record their work", device().name()));
}

std::unique_ptr<Recording> Stream::end_recording() {
  throw InternalError(fmt::format("streams of {} cannot record their work", device().name()));
}

namespace {

// One cache line, and the widest vector register.
constexpr std::size_t kAlignmentBytes = 64;
// Below this size a mapping of its own would waste more than a tenth in its last page.
constexpr std::size_t kSmallBytes = 32 << 10;

std::size_t counted_bytes(std::size_t bytes) noexcept { return round_up(bytes, kAlignmentBytes); }

// It is reached when it is recorded. Atomic, because a communication thread may read it.
class CpuEvent final : public Event {
 public:
  bool reached() const override { return !std::isnan(time_s_.load(std::memory_order_acquire)); }
  double time_s() const override {
    ensure(reached(), "the time of an event that was not reached");
    return time_s_.load(std::memory_order_acquire);
  }
  void stamp() { time_s_.store(steady_s(), std::memory_order_release); }

 private:
  std::atomic<double> time_s_{std::numeric_limits<double>::quiet_NaN()};
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(Device& device) : device_(device) {}
  Device& device() const noexcept override { return device_; }
  void record(Event& event) override {
    auto* const cpu_event = dynamic_cast<CpuEvent*>(&event);
    ensure(cpu_event != nullptr, "an event of another kind of device on a stream of {}",
           device_.name());
    cpu_event->stamp();
  }
  // An inline stream has run all its queued work: an event that is not reached yet never will be.
  void wait(const Event& event) override {
    ensure(event.reached(), "{} waits for an event that was never recorded", device_.name());
  }
  void synchronize() override {}

 private:
  Device& device_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options) : options_(options) {
    ensure(options_.threads > 0, "{} with {} threads", name(), options_.threads);
    ensure(options_.cores.empty() ||
               options_.cores.size() == static_cast<std::size_t>(options_.threads),
           "{} has {} threads but {} cores", name(), options_.threads, options_.cores.size());
  }

  DeviceKind kind() const noexcept override { return DeviceKind::cpu; }
  int index() const noexcept override { return options_.index; }
  std::string name() const override { return fmt::format("cpu:{}", options_.index); }
  std::string model() const override { return cpu_model_name(); }
  int thread_count() const noexcept override { return options_.threads; }

  void bind_calling_thread() override {
    // libgomp keeps the team and its size for each leading thread.
    omp_set_dynamic(0);
    omp_set_num_threads(options_.threads);
    if (!options_.cores.empty()) pin_team();
  }

  Buffer allocate(std::size_t bytes, MemoryCategory category, Sharing sharing) override {
    return allocate(bytes, category, sharing, counter_);
  }

  bool is_host_accessible() const noexcept override { return true; }
  Buffer allocate_staging(std::size_t bytes) override {
    return allocate(bytes, MemoryCategory::input, Sharing::process_private,
                    std::make_shared<MemoryCounter>());
  }

  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(*this); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }

  void copy(Stream&, BufferView dst, BufferView src) override {
    ensure(dst.bytes == src.bytes, "{}: copy of {} bytes into {}", name(), src.bytes, dst.bytes);
    if (src.bytes > 0) std::memcpy(dst.data, src.data, src.bytes);
  }

  double now_s() const override { return steady_s(); }
  MemoryUsage memory() const override { return counter_->usage(); }
  void reset_memory_peaks() override { counter_->reset_peaks(); }
  std::size_t allocation_bytes(std::size_t bytes, Sharing) const noexcept override {
    return counted_bytes(bytes);
  }
  std::optional<std::size_t> free_bytes() const override {
    const std::size_t limit = options_.memory_limit_bytes;
    if (limit == 0) return std::nullopt;
    return limit - std::min(limit, memory().total_live_bytes);
  }
  std::string memory_pool() const override { return options_.memory_pool; }

 private:
  // Returns zeroed memory whose pages are populated, so that no training step faults, near the
  // calling thread: from the heap for small buffers, own page mappings for large ones, memfd for
  // what other ranks map. The memory counts as counted_bytes(). When there is not enough, throws
  // DeviceError with a table of what `counter` counts.
  Buffer allocate(std::size_t wanted, MemoryCategory category, Sharing sharing,
                  const std::shared_ptr<MemoryCounter>& counter) const {
    const auto fail = [&](const char* reason) {
      throw DeviceError(fmt::format("{}: cannot allocate {} bytes for {}: {}; this device holds{}",
                                    name(), wanted, to_string(category), reason,
                                    memory_table(counter->usage().live_bytes)));
    };
    // A request for more pages than the host has would wake the out-of-memory killer.
    if (wanted >= physical_memory_bytes()) {
      fail("this host has less memory; use a smaller batch, smaller buffers or fewer devices");
    }
    const std::size_t bytes = std::max(counted_bytes(wanted), kAlignmentBytes);
    const bool is_mappable = sharing == Sharing::mappable;
    const bool is_small = !is_mappable && bytes < kSmallBytes;
    BufferView view;
    std::shared_ptr<void> owner;
    std::string handle;
    if (is_small) {
      constexpr std::align_val_t kAlignment{kAlignmentBytes};
      view = {static_cast<std::byte*>(::operator new(bytes, kAlignment)), bytes};
      owner.reset(view.data, [](void* data) { ::operator delete(data, kAlignment); });
      std::memset(view.data, 0, bytes);
    } else if (is_mappable) {
      auto memory = std::make_shared<SharedMemory>(
          SharedMemory::create(fmt::format("ddpbench-{}-{}", name(), to_string(category)), bytes));
      view = memory->view();
      handle = memory->handle();
      owner = std::move(memory);
    } else {
      view = map_memory(bytes, -1);
      if (!view.data) fail(std::strerror(errno));
      owner.reset(view.data, [view](void*) { unmap_memory(view); });
    }
    if (!is_small && !populate_memory(view)) fail(std::strerror(errno));
    return {BufferView{view.data, wanted},
            counted_memory(counter, category, counted_bytes(wanted), owner), std::move(handle)};
  }

  void pin_team() const {
    const std::size_t size = options_.cores.size();
    std::vector<int> errors(size, 0);
    int team_size = 0;
#pragma omp parallel num_threads(options_.threads)
    {
      const auto member = static_cast<std::size_t>(omp_get_thread_num());
      errors[member] = pin_calling_thread({&options_.cores[member], 1});
      if (member == 0) team_size = omp_get_num_threads();
    }
    if (team_size != options_.threads) {
      throw DeviceError(fmt::format("{}: OpenMP gives {} of {} threads; check OMP_THREAD_LIMIT",
                                    name(), team_size, options_.threads));
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (errors[i] == 0) continue;
      throw DeviceError(fmt::format("{}: cannot bind a thread to processor {}: {}", name(),
                                    options_.cores[i], std::strerror(errors[i])));
    }
  }

  CpuDeviceOptions options_;
  std::shared_ptr<MemoryCounter> counter_ = std::make_shared<MemoryCounter>();
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace ddpbench
