// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommHook: how the buckets of an all-reduce are encoded while they travel (docs/algorithms.md has
// the bytes). Most hooks encode a bucket as it lies in memory (kernels/ops/encoding.h); that of
// power_sgd.cpp approximates the matrices in it, and sends twice.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/step_parts.h"

namespace ddpbench {

// What a value of --comm-hook encodes a bucket by; nothing for "none" and "powersgd:R". Throws
// ConfigError.
std::optional<ops::Encoding> encoding_of(const std::string& hook);

// Whether it gathers the ranks' encodings, rather than all-reduces them.
inline bool gathers(const std::string& hook) {
  const auto encoding = encoding_of(hook);
  return encoding && !encoding->is_cast();
}

// Whether it sends a selection of the gradients, to which accumulating passes would add nothing.
inline bool selects(const std::string& hook) {
  return hook.starts_with("topk:") || hook.starts_with("powersgd:");
}

class CommHook {
 public:
  // `context` outlives this.
  explicit CommHook(const StrategyContext& context) : context_(context) {}
  virtual ~CommHook() = default;

  virtual std::vector<PlannedBuffer> planned(const nn::ParameterPlan& parameters,
                                             std::span<const Bucket> buckets) = 0;
  // Once what is planned is there: registers it. Collective.
  virtual void open() = 0;
  // Queues the encoding of bucket b's gradients behind them, and the transfer behind that.
  virtual comm::Work start(std::size_t b, const BufferView& gradients,
                           const comm::CallOptions& options) = 0;
  // For each bucket that has bytes to follow, once its transfer is done: queues a second one.
  virtual comm::Work follow(std::size_t /*b*/, const comm::CallOptions&) { return {}; }
  // Queues the mean over all ranks, once all transfers of the bucket are done.
  virtual void decode(std::size_t b, Stream& stream, const BufferView& gradients) = 0;
  // What a rank gives of bucket b in start() and in follow().
  virtual std::size_t sent_bytes(std::size_t b) const = 0;
  virtual std::size_t followed_bytes(std::size_t /*b*/) const { return 0; }
  // Lists what each rank did not send, and what else the next step begins with.
  virtual void add_parts(std::vector<StatePart>& parts) const = 0;
  // Forgets what was not sent.
  virtual void reset(Stream& stream) = 0;

 protected:
  // Lists `buffer`, of which each rank has one of its own.
  void add_own(std::vector<StatePart>& parts, StatePart part, const Buffer& buffer) const;
  comm::Communicator& world() const { return *context_.world; }
  Device& device() const { return *context_.devices[0]; }
  ops::OpBackend& backend() const { return *context_.backends[0]; }

 private:
  const StrategyContext& context_;
};

// Null for "none". Throws ConfigError.
std::unique_ptr<CommHook> make_comm_hook(const StrategyConfig& config,
                                         const StrategyContext& context);
// With approximations of rank `width`, whose start is drawn by `seed` (power_sgd.cpp).
std::unique_ptr<CommHook> make_power_sgd(std::int64_t width, std::uint64_t seed,
                                         const StrategyContext& context);

}  // namespace ddpbench
