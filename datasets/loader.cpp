// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pass k always uses buffer k mod n. Workers claim passes in order and may finish them in any
// order. In between they sleep on condition variables, because the cores belong to the compute
// threads.
#include "datasets/loader.h"

#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

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

}  // namespace

Loader::Loader(const Split& split, const ShardedSampler& sampler, LoaderOptions options)
    : options_(std::move(options)),
      split_(split),
      sampler_(sampler),
      assembler_(split, options_.normalization),
      own_indices_(static_cast<std::size_t>(sampler.pass_samples() / sampler.options().shards)),
      ready_(options_.buffers.size(), kNothing) {
  if (options_.ignored_label != kNoLabel) label_counts_.emplace(split, options_.ignored_label);
  check();
  try {
    for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this, i] { run_worker(i); });
  } catch (...) {
    stop_workers();
    throw;
  }
}

Loader::~Loader() { stop_workers(); }

void Loader::check() const {
  const SamplerOptions& sampling = sampler_.options();
  ensure(sampling.samples <= split_.count, "loader: sampler of {} samples, split of {}",
         sampling.samples, split_.count);
  ensure(!options_.shards.empty(), "loader: no shards");
  for (const int shard : options_.shards) {
    ensure(shard >= 0 && shard < sampling.shards, "loader: shard {} of {}", shard, sampling.shards);
  }
  ensure(!options_.buffers.empty(), "loader: no buffers");
  for (const BatchBuffer& buffer : options_.buffers) {
    ensure(buffer.images != nullptr && buffer.labels != nullptr, "loader: a buffer without memory");
    ensure(!label_counts_ || buffer.valid_weight != nullptr, "loader: a buffer without a weight");
  }
  ensure(!options_.augment || split_.width > 0,
         "loader: images of unknown width are to be cropped");
  ensure(options_.workers >= 0, "loader: {} workers", options_.workers);
}

void Loader::stop_workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  claimable_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::run_worker(int number) {
  pthread_setname_np(pthread_self(), fmt::format("loader-{}", number).c_str());
  const std::exception_ptr failure = failure_of([&] {
    pin_this_thread(options_.worker_cores);
    work();
  });
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = failure;
  finished_.notify_all();
}

void Loader::work() {
  std::vector<std::int64_t> indices(own_indices_.size());
  std::unique_lock lock(mutex_);
  for (;;) {
    claimable_.wait(lock, [&] {
      return stopping_ || claimed_ < std::min(passes_, released_ + std::ssize(options_.buffers));
    });
    if (stopping_) return;
    const std::int64_t pass = claimed_++;
    const std::int64_t epoch = begun_epochs_;
    ++assembling_;
    lock.unlock();
    spend_costs(epoch);
    const std::exception_ptr failure = failure_of([&] { assemble(pass, indices); });
    lock.lock();
    if (!error_) error_ = failure;
    ready_[static_cast<std::size_t>(pass) % ready_.size()] = pass;
    --assembling_;
    finished_.notify_all();
  }
}

// Spends the time that a batch's samples cost, or less where the batch is not wanted any more.
void Loader::spend_costs(std::int64_t epoch) {
  if (options_.sample_cost_s <= 0) return;
  const auto samples = options_.shards.size() * own_indices_.size();
  for (std::size_t i = 0; i < samples; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || epoch != begun_epochs_) return;
    }
    spend_cpu_s(options_.sample_cost_s);
  }
}

void Loader::assemble(std::int64_t pass, std::vector<std::int64_t>& indices) const {
  const BatchBuffer& buffer = options_.buffers[static_cast<std::size_t>(pass) % ready_.size()];
  std::size_t samples = 0;
  for (const int shard : options_.shards) {
    sampler_.batch(pass, shard, indices);
    assembler_.gather(indices, buffer.images + samples * split_.sample_bytes,
                      buffer.labels + samples * split_.labels_per_sample, augmentation());
    samples += indices.size();
  }
  if (!label_counts_) return;
  *buffer.valid_weight =
      label_counts_->weight(sampler_, pass / sampler_.options().passes, augmentation());
}

void Loader::begin_epoch(std::int64_t epoch, std::int64_t max_steps, std::int64_t first_step) {
  std::unique_lock lock(mutex_);
  passes_ = 0;  // nothing more to claim
  ++begun_epochs_;
  finished_.wait(lock, [&] { return assembling_ == 0; });
  sampler_.begin_epoch(epoch);
  drawn_ = {.seed = sampler_.options().seed, .epoch = epoch};
  std::ranges::fill(ready_, kNothing);
  claimed_ = delivered_ = released_ = first_step * sampler_.options().passes;
  const auto end =
      std::clamp<std::int64_t>(first_step + max_steps, first_step, sampler_.steps_per_epoch());
  if (label_counts_) label_counts_->check(sampler_, end, augmentation());
  passes_ = end * sampler_.options().passes;
  claimable_.notify_all();
}

const BatchBuffer* Loader::next() {
  std::unique_lock lock(mutex_);
  released_ = delivered_;
  if (delivered_ == passes_ && !error_) return nullptr;
  const auto slot = static_cast<std::size_t>(delivered_) % ready_.size();
  if (options_.workers == 0) {
    const std::int64_t epoch = begun_epochs_;
    lock.unlock();
    spend_costs(epoch);
    lock.lock();
    assemble(delivered_, own_indices_);
  } else {
    claimable_.notify_one();
    finished_.wait(lock, [&] { return error_ || ready_[slot] == delivered_; });
    if (error_) std::rethrow_exception(error_);
  }
  ++delivered_;
  return &options_.buffers[slot];
}

}  // namespace ddpbench::data
