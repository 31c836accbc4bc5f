// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Step k always uses buffer k mod n. Workers claim steps in order and may finish them in any order.
// In between they sleep on condition variables, because the cores belong to the compute threads.
#include "datasets/loader.h"

#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace ddpbench::data {
namespace {

void pin_this_thread(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  const int error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  if (error == 0) return;
  throw UnavailableError(fmt::format("loader: cannot run a worker on processors {}: {}",
                                     fmt::join(cores, ","), std::strerror(error)));
}

std::exception_ptr failure_of(const auto& action) {
  try {
    action();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

std::int64_t samples_per_shard(const ShardedSampler& sampler) {
  return sampler.options().global_batch / sampler.options().shards;
}

}  // namespace

struct Loader::Impl {
  Impl(const Split& split_in, const ShardedSampler& sampler_in, const LoaderOptions& options_in)
      : options(options_in),
        split(split_in),
        sampler(sampler_in),
        assembler(split_in, options_in.normalization),
        label_counts(options_in.ignored_label == kNoLabel
                         ? std::nullopt
                         : std::optional<LabelCounts>({split_in, options_in.ignored_label})),
        own_indices(static_cast<std::size_t>(samples_per_shard(sampler_in))),
        ready(options_in.buffers.size(), kNothing) {
    check();
    try {
      for (int i = 0; i < options.workers; ++i) threads.emplace_back([this, i] { run_worker(i); });
    } catch (...) {
      stop_workers();
      throw;
    }
  }
  ~Impl() { stop_workers(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void check() const;
  void stop_workers();
  void run_worker(int number);
  void work();
  bool may_claim() const;
  void pause(std::unique_lock<std::mutex>& lock, std::int64_t epoch);
  void spend_costs(std::int64_t epoch);
  void assemble(std::int64_t step, std::vector<std::int64_t>& indices) const;
  void begin_epoch(std::int64_t epoch, std::int64_t max_steps);
  const BatchBuffer* next();

  static constexpr std::int64_t kNothing = -1;

  // Not changed while a worker assembles.
  const LoaderOptions options;
  const Split split;
  ShardedSampler sampler;
  std::int64_t epoch_number = 0;
  const BatchAssembler assembler;
  const std::optional<LabelCounts> label_counts;  // where a label is ignored
  std::vector<std::int64_t> own_indices;          // for next() when there are no workers

  std::mutex mutex;
  std::condition_variable claimable;  // wakes workers: a step has a buffer
  std::condition_variable abandoned;  // wakes workers that pause: another epoch, or the end
  std::condition_variable finished;   // wakes the consumer: a worker is done with a step
  // Guarded by the mutex.
  std::int64_t begun_epochs = 0;
  std::int64_t steps = 0;      // in this epoch
  std::int64_t claimed = 0;    // steps that workers took
  std::int64_t delivered = 0;  // steps that next() returned
  std::int64_t released = 0;   // steps whose buffer the consumer gave back
  int assembling = 0;          // workers that are at a step
  bool stopping = false;
  std::vector<std::int64_t> ready;  // step that lies in each buffer, or kNothing
  std::exception_ptr error;         // the first error of a worker; it stays

  std::vector<std::thread> threads;
};

void Loader::Impl::check() const {
  const SamplerOptions& sampling = sampler.options();
  ensure(sampling.samples <= split.count, "loader: sampler of {} samples, split of {}",
         sampling.samples, split.count);
  ensure(!options.shards.empty(), "loader: no shards");
  for (const int shard : options.shards) {
    ensure(shard >= 0 && shard < sampling.shards, "loader: shard {} of {}", shard, sampling.shards);
  }
  ensure(!options.buffers.empty(), "loader: no buffers");
  for (const BatchBuffer& buffer : options.buffers) {
    ensure(buffer.images != nullptr && buffer.labels != nullptr, "loader: a buffer without memory");
    ensure(!label_counts || buffer.valid_weight != nullptr, "loader: a buffer without a weight");
  }
  ensure(!options.augment || split.width > 0, "loader: images of unknown width are to be cropped");
  if (options.workers < 0) {
    throw ConfigError(
        fmt::format("loader_workers: {}; expected 0 (none) or more", options.workers));
  }
}

void Loader::Impl::stop_workers() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  claimable.notify_all();
  abandoned.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Loader::Impl::run_worker(int number) {
  pthread_setname_np(pthread_self(), fmt::format("loader-{}", number).c_str());
  const std::exception_ptr failure = failure_of([&] {
    pin_this_thread(options.worker_cores);
    work();
  });
  const std::lock_guard lock(mutex);
  if (!error) error = failure;
  finished.notify_all();
}

bool Loader::Impl::may_claim() const {
  const auto buffers = static_cast<std::int64_t>(options.buffers.size());
  return claimed < std::min(steps, released + buffers);
}

void Loader::Impl::work() {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(samples_per_shard(sampler)));
  std::unique_lock lock(mutex);
  for (;;) {
    claimable.wait(lock, [&] { return stopping || may_claim(); });
    if (stopping) return;
    const std::int64_t step = claimed++;
    const std::int64_t epoch = begun_epochs;
    ++assembling;
    pause(lock, epoch);
    if (!stopping && epoch == begun_epochs) {
      lock.unlock();
      spend_costs(epoch);
      const std::exception_ptr failure = failure_of([&] { assemble(step, indices); });
      lock.lock();
      if (!error) error = failure;
      ready[static_cast<std::size_t>(step) % ready.size()] = step;
    }
    --assembling;
    finished.notify_all();
  }
}

void Loader::Impl::pause(std::unique_lock<std::mutex>& lock, std::int64_t epoch) {
  if (options.delay_s <= 0) return;
  abandoned.wait_for(lock, std::chrono::duration<double>(options.delay_s),
                     [&] { return stopping || epoch != begun_epochs; });
}

// Spends the time that a batch's samples cost, or less where the batch is not wanted any more.
void Loader::Impl::spend_costs(std::int64_t epoch) {
  if (options.sample_cost_s <= 0) return;
  const auto samples = options.shards.size() * own_indices.size();
  for (std::size_t i = 0; i < samples; ++i) {
    {
      const std::lock_guard lock(mutex);
      if (stopping || epoch != begun_epochs) return;
    }
    spend_cpu_s(options.sample_cost_s);
  }
}

void Loader::Impl::assemble(std::int64_t step, std::vector<std::int64_t>& indices) const {
  const BatchBuffer& buffer = options.buffers[static_cast<std::size_t>(step) % ready.size()];
  std::size_t samples = 0;
  for (const int shard : options.shards) {
    sampler.batch(step, shard, indices);
    const BatchAugmentation augmentation{.seed = sampler.options().seed, .epoch = epoch_number};
    assembler.gather(indices, buffer.images + samples * split.sample_bytes,
                     buffer.labels + samples * split.labels_per_sample,
                     options.augment ? &augmentation : nullptr);
    samples += indices.size();
  }
  if (label_counts) *buffer.valid_weight = label_counts->weight(sampler, step);
}

void Loader::Impl::begin_epoch(std::int64_t epoch, std::int64_t max_steps) {
  std::unique_lock lock(mutex);
  steps = 0;  // nothing more to claim
  ++begun_epochs;
  abandoned.notify_all();
  finished.wait(lock, [&] { return assembling == 0; });
  sampler.begin_epoch(epoch);
  epoch_number = epoch;
  std::ranges::fill(ready, kNothing);
  claimed = delivered = released = 0;
  const auto wanted = std::clamp<std::int64_t>(max_steps, 0, sampler.steps_per_epoch());
  if (label_counts) label_counts->check(sampler, wanted);
  steps = wanted;
  claimable.notify_all();
}

const BatchBuffer* Loader::Impl::next() {
  std::unique_lock lock(mutex);
  released = delivered;
  if (delivered == steps && !error) return nullptr;
  const auto slot = static_cast<std::size_t>(delivered) % ready.size();
  if (options.workers == 0) {
    pause(lock, begun_epochs);
    const std::int64_t epoch = begun_epochs;
    lock.unlock();
    spend_costs(epoch);
    lock.lock();
    assemble(delivered, own_indices);
  } else {
    claimable.notify_one();
    finished.wait(lock, [&] { return error || ready[slot] == delivered; });
    if (error) std::rethrow_exception(error);
  }
  ++delivered;
  return &options.buffers[slot];
}

Loader::Loader(const Split& split, const ShardedSampler& sampler, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(split, sampler, options)) {}

Loader::~Loader() = default;

void Loader::begin_epoch(std::int64_t epoch, std::int64_t max_steps) {
  impl_->begin_epoch(epoch, max_steps);
}

const BatchBuffer* Loader::next() { return impl_->next(); }

}  // namespace ddpbench::data
