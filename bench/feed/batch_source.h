// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// BatchSource: where a rank's training batches come from, and in which memory the steps find them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/measure/device_wait.h"
#include "datasets/loader.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// A batch that the device fills itself needs no memory on the host.
enum class FilledBy : std::uint8_t { host, device };

struct BatchSourceOptions {
  std::size_t samples = 0;      // per batch
  std::size_t image_bytes = 0;  // per sample, as fp32
  std::size_t labels_per_sample = 1;
  data::LoaderOptions loader = {};                                    // without buffers
  std::shared_ptr<DeviceWait> wait = std::make_shared<DeviceWait>();  // for copies to the device

  // Whether labels are ignored (StepInput).
  bool has_valid_weight() const { return loader.ignored_label != data::kNoLabel; }
};

// Memory for one batch that the host fills and a device trains on: where the host cannot write the
// device's memory, page-locked memory for the host, and device memory into which that is copied.
class BatchMemory {
 public:
  // Has no memory yet.
  explicit BatchMemory(const BatchSourceOptions& options, FilledBy filled_by = FilledBy::host);
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
  // Queues a copy of the memory of another batch of this size and on this device.
  void copy(Stream& stream, const StepInput& from);
  // Queues a copy of the host side of `from`, which has the same size, to this device side.
  void upload(Stream& stream, const BatchMemory& from);

 private:
  data::BatchBuffer view_of(const Buffer& buffer) const;

  std::size_t labels_offset_, weight_offset_, bytes_;  // weight_offset_ = bytes_: there is none
  FilledBy filled_by_;
  Buffer memory_, staging_;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Starts at `first_step` of `epoch` and gives the batches of at most `max_steps` steps: one a
  // pass.
  virtual void begin_epoch(std::int64_t epoch, std::int64_t max_steps,
                           std::int64_t first_step = 0) = 0;
  // Returns the next batch. Work queued on `stream` from now on may read it, until consumed().
  // Throws a worker's error, and InternalError at the epoch's end.
  virtual StepInput next(Stream& stream) = 0;
  // Says that the pass that reads the batch has been queued on `stream`.
  virtual void consumed(Stream& stream) = 0;
};

// Add what the sources below allocate on their device.
void add_loader_source(MemoryNeeds& needs, const BatchSourceOptions& options);
void add_resident_source(MemoryNeeds& needs, const data::Split& split,
                         const data::ShardedSampler& sampler, const BatchSourceOptions& options);

// Batches that the host's loader assembles. `device` and `split` outlive the source.
std::unique_ptr<BatchSource> make_loader_source(Device& device, const data::Split& split,
                                                const data::ShardedSampler& sampler,
                                                const BatchSourceOptions& options);

// Batches picked from a copy of the data set on the device, which must have room for it. The
// arguments outlive the source.
std::unique_ptr<BatchSource> make_resident_source(Device& device, ops::OpBackend& backend,
                                                  const data::Split& split,
                                                  const data::ShardedSampler& sampler,
                                                  const BatchSourceOptions& options);

}  // namespace ddpbench::bench
