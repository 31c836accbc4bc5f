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

struct BatchShape {
  std::size_t samples = 0;
  std::size_t image_bytes = 0;  // of one sample, as fp32
  std::size_t labels_per_sample = 1;
  bool has_valid_weight = false;  // where labels are ignored (StepInput)
};

class BatchMemory {
 public:
  // Has no memory yet.
  explicit BatchMemory(const BatchShape& shape, FilledBy filled_by = FilledBy::host);
  // The memory that allocate() will take on the device.
  std::array<PlannedBuffer, 1> planned() { return {{{&memory_, MemoryCategory::input, bytes_}}}; }
  // Must be called once, before the calls below. `device` outlives this.
  void allocate(Device& device);

  // The side that the host fills. REQUIRES: FilledBy::host.
  data::BatchBuffer host() const { return view_of(staging_ ? staging_ : memory_); }
  // The side that a step reads.
  StepInput device() const;
  // Its place for the weight. REQUIRES: has_valid_weight.
  BufferView device_valid_weight() const {
    return memory_.view().slice(weight_offset_, sizeof(float));
  }
  bool needs_upload() const { return static_cast<bool>(staging_); }
  // Queues a copy of the host side of `from`, which has the same size, to this device side.
  void upload(Stream& stream, const BatchMemory& from);

 private:
  data::BatchBuffer view_of(const Buffer& buffer) const;

  std::size_t labels_offset_, weight_offset_, bytes_;  // weight_offset_ = bytes_: there is none
  FilledBy filled_by_;
  Buffer memory_, staging_;
};

}  // namespace ddpbench::bench
