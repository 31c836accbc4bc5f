// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommHook: how the buckets of an all-reduce are encoded while they travel (kernels/ops/encoding.h;
// docs/algorithms.md has the bytes). Gradients are divided by the number of ranks before. Casts are
// all-reduced in their type. All else is gathered, and each rank adds up the same bits in the same
// order. There a rank keeps what it did not send and adds it in the next step (error feedback:
// Seide et al., Interspeech 2014).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/step_parts.h"

namespace ddpbench {

// What a value of --comm-hook names; nothing for "none". Throws ConfigError.
std::optional<ops::Encoding> encoding_of(const std::string& hook);

// Whether it gathers the ranks' encodings, rather than all-reduces them.
inline bool gathers(const std::string& hook) {
  const auto encoding = encoding_of(hook);
  return encoding && !encoding->is_cast();
}

class CommHook {
 public:
  // `context` outlives this.
  CommHook(const ops::Encoding& encoding, const StrategyContext& context)
      : encoding_(encoding), context_(context) {}

  std::vector<PlannedBuffer> planned(std::span<const Bucket> buckets);
  // Allocates and registers. Collective.
  void open(std::span<const Bucket> buckets);
  // Queues the encoding of bucket b's gradients behind them, and the transfer behind that.
  comm::Work start(std::size_t b, const BufferView& gradients, const comm::CallOptions& options);
  // Queues the mean over all ranks, once the transfer is done.
  void decode(std::size_t b, Stream& stream, const BufferView& gradients);
  // What a rank gives of bucket b.
  std::size_t sent_bytes(std::size_t b) const { return places_[b].bytes; }
  // Forgets what was not sent.
  void reset(Stream& stream);

 private:
  struct Place {
    std::size_t offset, bytes, stride;  // of ranks' encodings; of a cast's only one
    std::size_t error;                  // offset
  };
  comm::Communicator& world() const { return *context_.world; }
  std::size_t parts() const {
    return encoding_.is_cast() ? 1 : static_cast<std::size_t>(world().size());
  }

  const ops::Encoding encoding_;
  const StrategyContext& context_;
  std::vector<Place> places_;  // [bucket]
  Buffer encoded_, error_;
  Registrations registered_;
};

}  // namespace ddpbench
