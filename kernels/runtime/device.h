// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Device, Stream and Event: where memory lives and work is queued.
//
// A Device is used by its leading thread only, except for memory(), now_s() and the constants.
// Operations queue their work on a Stream. A CPU stream runs it inline on the calling (leading)
// thread; a CUDA stream runs it asynchronously. Code above the runtime must assume neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/buffer.h"

namespace ddpbench {

enum class DeviceKind : std::uint8_t { cpu, cuda };
std::string_view to_string(DeviceKind kind);  // "cpu", "cuda"

class Device;

// A point in a stream. Reusable: recording again overwrites.
class Event {
 public:
  virtual ~Event() = default;
  // Whether the stream that it was last recorded on has reached it.
  virtual bool reached() const = 0;
  // The device-clock time, in seconds, at which the stream reached it. REQUIRES: reached().
  virtual double time_s() const = 0;
};

class Stream;

// Work that a stream recorded instead of running it. It is queued again as a whole (a CUDA graph).
class Recording {
 public:
  virtual ~Recording() = default;
  // Queues the work on `stream`, with the pointers and events that were recorded.
  virtual void replay(Stream& stream) = 0;
};

// An ordered queue of device work.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() const noexcept = 0;
  virtual void record(Event& event) = 0;
  // Later work of this stream starts after `event` was reached. Does not block the host, except on
  // inline CPU streams, where the host is the stream.
  virtual void wait(const Event& event) = 0;
  // Blocks the host until all queued work is done. Throws DeviceError.
  virtual void synchronize() = 0;

  // Work queued between the two calls is recorded and not run. This holds for all streams that wait
  // for this one and that it waits for in turn. No call in between may block the host or allocate.
  // REQUIRES: can_record(). end_recording throws DeviceError when a call in between cannot be
  // recorded; the stream is usable again.
  virtual bool can_record() const noexcept { return false; }
  virtual void begin_recording();
  virtual std::unique_ptr<Recording> end_recording();
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const noexcept = 0;
  virtual int index() const noexcept = 0;         // within the job's device list
  virtual std::string name() const = 0;           // "cpu:0"
  virtual std::string model() const = 0;          // marketing name of the processor
  virtual int thread_count() const noexcept = 0;  // compute threads (1 on CUDA)

  // Makes the calling thread the device's leading thread: pins it (and on CPU its OpenMP team) to
  // the device's cores, or makes the device current on CUDA. Call once per thread that drives it.
  virtual void bind_calling_thread() = 0;

  // Zeroed, 64-byte aligned memory (2 MiB aligned and huge-page advised from 2 MiB up on CPU).
  // Throws DeviceError naming bytes and category when there is not enough.
  virtual Buffer allocate(std::size_t bytes, MemoryCategory category,
                          Sharing sharing = Sharing::process_private) = 0;

  // Whether the host may read and write the memory of allocate() itself.
  virtual bool is_host_accessible() const noexcept = 0;
  // Zeroed host memory for copies to and from this device: they run at full speed and do not block
  // the host (page-locked on CUDA). It counts in no category, since it is not the device's.
  virtual Buffer allocate_staging(std::size_t bytes) = 0;

  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  // Copies src to dst (equal sizes; either may be on another device of this process or in host
  // memory), ordered on `stream`. REQUIRES: no overlap.
  virtual void copy(Stream& stream, BufferView dst, BufferView src) = 0;

  // The device's clock in seconds; comparable between the devices and ranks of one host.
  // (CPU: CLOCK_MONOTONIC.) Virtual-time devices tell their own time.
  virtual double now_s() const = 0;
  // Aligns the times of events with now_s() again. They drift apart where events have a clock of
  // their own (CUDA: some microseconds a second). Blocks until the device is idle.
  virtual void calibrate_clock() {}

  virtual MemoryUsage memory() const = 0;
  virtual void reset_memory_peaks() {}
  // The bytes that a buffer of `bytes` counts as in memory().
  virtual std::size_t allocation_bytes(std::size_t bytes, Sharing) const noexcept { return bytes; }
  // The memory that the device allocates from, as its driver reports it; null without a driver.
  virtual std::optional<DriverMemory> driver_memory() const { return std::nullopt; }
  // An upper bound of what allocate() can still give: other processes may take some of it
  // meanwhile. Null where it is unknown.
  virtual std::optional<std::size_t> free_bytes() const {
    const std::optional<DriverMemory> memory = driver_memory();
    return memory ? std::optional(memory->free_bytes) : std::nullopt;
  }
  // Names the memory that free_bytes() measures. Devices with equal names, also those of other
  // processes, share it. Empty: this device has it alone, or it is unknown.
  virtual std::string memory_pool() const { return {}; }
};

}  // namespace ddpbench
