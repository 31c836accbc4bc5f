// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Loader: assembles normalised batches ahead of time, on worker threads, into host buffers that the
// caller supplies and that are reused in turn. One consumer thread uses it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "datasets/batch_assembler.h"
#include "datasets/dataset.h"
#include "datasets/sharded_sampler.h"

namespace ddpbench::data {

struct LoaderOptions {
  Normalization normalization;
  int workers = 1;                // threads; 0: next() assembles on the calling thread
  std::vector<int> worker_cores;  // OS processors they may run on; empty: any
  // Shards whose parts make up a batch, in this order: {rank}, or {0..n-1} for dp's global batch.
  std::vector<int> shards = {0};
  std::vector<BatchBuffer> buffers;  // at least 1; batches that may be ahead = buffers - 1
  // Crop and flip every image (batch_assembler.h, image_view.h), from the sampler's seed.
  bool augment = false;
  // The label that the network's loss ignores; each buffer then has a valid_weight.
  std::int32_t ignored_label = kNoLabel;
  // Processor time that a sample costs beside assembling it (--loader-cost).
  double sample_cost_s = 0;
};

class Loader {
 public:
  // `split` must outlive the loader. `sampler` is copied.
  Loader(const Split& split, const ShardedSampler& sampler, LoaderOptions options);
  ~Loader();  // ends its threads
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Starts assembling epoch `epoch` from `first_step`, for at most `max_steps` steps, a batch a
  // pass. Abandons batches that were assembled ahead. Throws ConfigError when all labels of these
  // steps are ignored.
  void begin_epoch(std::int64_t epoch, std::int64_t max_steps, std::int64_t first_step = 0);
  // Returns the buffer of the next batch; null at the end of the epoch. The buffer stays the
  // caller's until the following next() or begin_epoch(). Rethrows a worker's error.
  const BatchBuffer* next();

 private:
  static constexpr std::int64_t kNothing = -1;

  void check() const;
  void stop_workers();
  void run_worker(int number);
  void work();
  void spend_costs(std::int64_t epoch);
  // Null: images stay as they are.
  const BatchAugmentation* augmentation() const { return options_.augment ? &drawn_ : nullptr; }
  void assemble(std::int64_t pass, std::vector<std::int64_t>& indices) const;

  // Not changed while a worker assembles.
  const LoaderOptions options_;
  const Split split_;
  ShardedSampler sampler_;
  BatchAugmentation drawn_;  // what the epoch's crops are drawn from
  const BatchAssembler assembler_;
  std::optional<LabelCounts> label_counts_;  // where a label is ignored
  std::vector<std::int64_t> own_indices_;    // for next() when there are no workers

  std::mutex mutex_;                   // guards those below
  std::condition_variable claimable_;  // wakes workers: a pass has a buffer
  std::condition_variable finished_;   // wakes the consumer: a worker is done with a pass
  std::int64_t begun_epochs_ = 0;
  std::int64_t passes_ = 0;     // in this epoch, those before its first step included
  std::int64_t claimed_ = 0;    // passes that workers took
  std::int64_t delivered_ = 0;  // passes that next() returned
  std::int64_t released_ = 0;   // passes whose buffer the consumer gave back
  int assembling_ = 0;          // workers that are at a pass
  bool stopping_ = false;
  std::vector<std::int64_t> ready_;  // pass that lies in each buffer, or kNothing
  std::exception_ptr error_;         // the first error of a worker; it stays

  std::vector<std::thread> threads_;
};

}  // namespace ddpbench::data
