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
  // From step 0 of `epoch`, at most `max_steps` steps.
  virtual void begin_epoch(std::int64_t epoch, std::int64_t max_steps) = 0;
  // The next batch. What is queued on `stream` from now on may read it, until consumed(). Throws a
  // worker's error, InternalError at the epoch's end.
  virtual StepInput next(Stream& stream) = 0;
  // The step that reads the batch has been queued on `stream`.
  virtual void consumed(Stream& stream) = 0;
};

struct BatchSourceOptions {
  std::size_t samples = 0;                                            // of a batch
  std::size_t image_bytes = 0;                                        // of one sample as fp32
  data::LoaderOptions loader;                                         // without buffers
  std::shared_ptr<DeviceWait> wait = std::make_shared<DeviceWait>();  // for copies to the device
};

// Add what the sources below allocate on their device.
void add_loader_source(MemoryNeeds& needs, const BatchSourceOptions& options);
void add_resident_source(MemoryNeeds& needs, const data::Split& split,
                         const data::ShardedSampler& sampler, const BatchSourceOptions& options);

// Batches that the host's loader assembles. On a device with memory of its own they travel on a
// stream of their own, ahead of the steps. `device` and `split` outlive the source.
std::unique_ptr<BatchSource> make_loader_source(Device& device, const data::Split& split,
                                                const data::ShardedSampler& sampler,
                                                const BatchSourceOptions& options);

// Batches picked from a copy of the data set that lives on the device, which has to have room for
// it. What is handed over outlives the source.
std::unique_ptr<BatchSource> make_resident_source(Device& device, ops::OpBackend& backend,
                                                  const data::Split& split,
                                                  const data::ShardedSampler& sampler,
                                                  const BatchSourceOptions& options);

}  // namespace ddpbench::bench
