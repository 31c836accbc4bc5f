// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What zero1, zero2 and zero3 share (sharded.cpp): each adds one thing that is kept in parts.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "parallel/gradient_exchange.h"

namespace ddpbench {

// zero1: the optimizer's state.
class Sharded : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;

  void adapt(ReplicaOptions& options) override;
  void finish(bool /*stale*/) override { wait_for_started(Phase::comm_wait); }
  // A stale rank leaves old weights in the parts that it owns, for all.
  void update(float grad_scale, bool stale) override;
  void parameters_set(bool to_step_0) override;
  BufferView fetch_gradients() override;
  // Each rank's part of every bucket. All ranks have the tail.
  void add_parts(std::vector<StatePart>& parts) override;

 protected:
  // Buckets are cut in multiples of it: a line for each rank.
  std::size_t granule() const;
  // Else it is the tail, or nothing.
  bool is_divided(std::size_t b) const;
  std::vector<Bucket> plan_transfers(const nn::ParameterPlan& parameters) const override;
  std::size_t own_bytes(const Bucket& bucket) const;
  std::size_t owned_bytes(const std::vector<Bucket>& buckets) const;
  // Returns this rank's part of a divided bucket, and all of the tail.
  BufferView part_of(std::size_t b, const BufferView& bucket) const;

  // Queues the average of a bucket's gradients, of which the rank's part goes to `to`; of the tail
  // it stays in place.
  comm::Work reduce(std::size_t b, const BufferView& bucket, const BufferView& to,
                    const comm::CallOptions& options);
  // Brings every rank's part of a bucket to all; nothing where all have it.
  comm::Work gather(std::size_t b, const BufferView& part, const BufferView& all, int number,
                    comm::Start start = comm::Start::deferred);

  // The rank's parts of the weights, and of the averaged gradients.
  virtual BufferView own_weights(std::size_t b) const;
  virtual BufferView own_gradients(std::size_t b) const;
  void gather_gradients(const BufferView& flat);
  // What moves together is no more than this part of the whole, since it takes memory.
  static std::size_t most_together(const nn::ParameterPlan& parameters);
  // Makes updated weights known to all.
  virtual void gather_weights();

  std::vector<PlannedBuffer> planned(const nn::ParameterPlan& parameters) override;
  void open(const std::vector<Bucket>& buckets) override;
  comm::Work start(std::size_t b, const comm::CallOptions& options) override;
  std::size_t followed_bytes(std::size_t b) const override;  // weights

  std::size_t owned_ = 0;  // elements that this rank updates

 private:
  void find_overflow();
  void update_own(float grad_scale);

  Buffer state_;  // of the optimizer of owned_ elements
  Registrations registered_;
};

// zero2: and gradients. Those of a bucket lie in a slot until they are reduced.
class ShardedGradients : public Sharded {
 public:
  using Sharded::Sharded;

  void adapt(ReplicaOptions& options) override;
  void plan(const nn::ParameterPlan& parameters, MemoryNeeds& needs) override;
  bool exchanges_each_pass() const override { return true; }
  void finish(bool stale) override;
  void parameters_set(bool to_step_0) override;
  // In memory that training does not need, and does not have.
  BufferView fetch_gradients() override;

 protected:
  void place_gradients(nn::ParameterPlan& plan);
  std::vector<Bucket> plan_groups(const nn::ParameterPlan& parameters) const override;
  BufferView own_gradients(std::size_t b) const override;

 private:
  // Where a bucket's gradients lie while backward runs.
  struct Slot {
    std::size_t offset = 0;  // in the memory of gradients, of the bucket's first byte
    std::size_t carry = 0;   // bytes at its begin that come from the bucket before
    std::size_t owned = 0;   // offset of what the rank owns of it
  };

  void begin_step() override;
  BufferView in_slot(std::size_t b) const;
  comm::Work start(std::size_t b, const comm::CallOptions& options) override;
  void settle(std::size_t b);

  std::vector<Slot> slots_;  // [bucket]
  Buffer fetched_;           // all gradients, where they were asked for
  Buffer zeros_;             // for the longest gap, where the loss is scaled
};

// zero3: and weights, which are gathered unit by unit (sharded_units.cpp).
MakeExchange make_sharded_units;

}  // namespace ddpbench
