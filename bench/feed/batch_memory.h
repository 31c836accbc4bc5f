// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// BatchMemory: memory for one batch that the host fills and a device trains on. Where the host
// cannot write the device's memory, it has two buffers: page-locked memory for the host, and device
// memory into which that is copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "datasets/loader.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// A batch that the device fills itself needs no memory on the host.
enum class FilledBy : std::uint8_t { host, device };

class BatchMemory {
 public:
  // Has no memory yet. `image_bytes`: the size of one sample as fp32.
  BatchMemory(std::size_t samples, std::size_t image_bytes, FilledBy filled_by = FilledBy::host);
  // The memory that allocate() will take on the device.
  std::array<PlannedBuffer, 1> planned() { return {{{&memory_, MemoryCategory::input, bytes_}}}; }
  // Must be called once, before the calls below. `device` outlives this.
  void allocate(Device& device);

  // The side that the host fills. REQUIRES: FilledBy::host.
  data::BatchBuffer host() const { return view_of(staging_ ? staging_ : memory_); }
  // The side that a step reads.
  StepInput device() const;
  bool needs_upload() const { return static_cast<bool>(staging_); }
  // Queues a copy of the host side of `from`, which has the same size, to this device side.
  void upload(Stream& stream, const BatchMemory& from);

 private:
  data::BatchBuffer view_of(const Buffer& buffer) const;

  std::size_t bytes_;
  std::size_t labels_offset_;
  FilledBy filled_by_;
  Buffer memory_, staging_;
};

}  // namespace ddpbench::bench
