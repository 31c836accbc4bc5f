// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// BatchMemory: room for one batch that the host fills and a device trains on. Where the host cannot
// write the device's memory there are two: page-locked memory to fill, and the device's to copy it
// to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datasets/loader.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// Who fills a batch: the host, or the device itself, which needs no memory on the host for it.
enum class FilledBy : std::uint8_t { host, device };

class BatchMemory {
 public:
  // `image_bytes`: of one sample as fp32. `device` outlives this.
  BatchMemory(Device& device, std::size_t samples, std::size_t image_bytes,
              FilledBy filled_by = FilledBy::host);
  // Adds what that allocates on the device.
  static void add_memory(MemoryNeeds& needs, std::size_t samples, std::size_t image_bytes);

  // To be filled by the host. REQUIRES: FilledBy::host.
  data::BatchBuffer host() const { return view_of(staging_ ? staging_ : memory_); }
  // What a step reads.
  StepInput device() const;
  bool needs_upload() const { return static_cast<bool>(staging_); }
  // Queues the copy of `from`, another BatchMemory's host side of equal size, to this device side.
  void upload(Stream& stream, const BatchMemory& from);

 private:
  data::BatchBuffer view_of(const Buffer& buffer) const;

  Device& device_;
  std::size_t labels_offset_;
  Buffer memory_, staging_;
};

}  // namespace ddpbench::bench
