// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// BatchSource: where a rank's training batches come from, and in which memory the steps find them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/feed/batch_memory.h"
#include "bench/measure/device_wait.h"
#include "datasets/loader.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Starts at step 0 of `epoch` and gives at most `max_steps` batches.
  virtual void begin_epoch(std::int64_t epoch, std::int64_t max_steps) = 0;
  // Returns the next batch. Work queued on `stream` from now on may read it, until consumed().
  // Throws a worker's error, and InternalError at the epoch's end.
  virtual StepInput next(Stream& stream) = 0;
  // Says that the step that reads the batch has been queued on `stream`.
  virtual void consumed(Stream& stream) = 0;
};

struct BatchSourceOptions {
  std::size_t samples = 0;      // per batch
  std::size_t image_bytes = 0;  // per sample, as fp32
  std::size_t labels_per_sample = 1;
  data::LoaderOptions loader;                                         // without buffers
  std::shared_ptr<DeviceWait> wait = std::make_shared<DeviceWait>();  // for copies to the device

  BatchShape shape() const {
    return {samples, image_bytes, labels_per_sample, loader.ignored_label != data::kNoLabel};
  }
};

// Add what the sources below allocate on their device.
void add_loader_source(MemoryNeeds& needs, const BatchSourceOptions& options);
void add_resident_source(MemoryNeeds& needs, const data::Split& split,
                         const data::ShardedSampler& sampler, const BatchSourceOptions& options);

// Batches that the host's loader assembles. On a device with memory of its own they travel on a
// separate stream, ahead of the steps. `device` and `split` outlive the source.
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
