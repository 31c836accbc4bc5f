// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Loader: assembles normalised batches ahead of time, on worker threads, into host buffers that the
// caller supplies and that are reused in turn. One consumer thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/batch_assembler.h"
#include "datasets/dataset.h"
#include "datasets/sharded_sampler.h"

namespace ddpbench::data {

struct LoaderOptions {
  Normalization normalization;
  int workers = 1;                // threads; 0: next() assembles on the calling thread
  std::vector<int> worker_cores;  // OS processors they may run on; empty: any
  // Shards whose parts make up a batch, in this order: {rank} where each rank has one shard,
  // {0..n-1} for DataParallel's global batch.
  std::vector<int> shards = {0};
  std::vector<BatchBuffer> buffers;  // at least 1; batches that may be ahead = buffers - 1
  // Crop and flip every image (batch_assembler.h), from the sampler's seed.
  bool augment = false;
  // The label that the network's loss ignores; each buffer then has a valid_weight.
  std::int32_t ignored_label = kNoLabel;
  // Processor time that a worker spends on each sample beside assembling it. It simulates what
  // transforms cost in a Python loader (--loader-cost).
  double sample_cost_s = 0;
  // Test hook: seconds that a worker waits before each batch (slow storage).
  double delay_s = 0;
};

class Loader {
 public:
  // `split` must outlive the loader. `sampler` is copied.
  Loader(const Split& split, const ShardedSampler& sampler, const LoaderOptions& options);
  ~Loader();  // ends its threads
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Starts assembling epoch `epoch` from step 0, for at most `max_steps` steps. Abandons batches
  // that were assembled ahead. Throws ConfigError when all labels of these steps are ignored.
  void begin_epoch(std::int64_t epoch, std::int64_t max_steps);
  // Returns the buffer of the next batch; null at the end of the epoch. The buffer stays the
  // caller's until the following next() or begin_epoch(). Rethrows a worker's error.
  const BatchBuffer* next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddpbench::data
