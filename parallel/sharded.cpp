// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `zero1` and `zero2`: data parallelism whose optimizer state, and in zero2 gradients, too, are in
// parts (ZeRO stages 1 and 2: Rajbhandari et al., SC 2020). Of every bucket each rank owns an equal
// part. The gradients of a bucket are averaged to the owners by reduce-scatter while backward runs,
// each rank updates what it owns, and an all-gather brings the new weights to all.
//
// Wire, per rank and step: (n-1)/n S bytes of gradients and as many of weights, as ddp; memory: an
// n-th of the optimizer's state.
//
// A bucket is cut into n parts of whole cache lines. What is left over, less than n lines, goes to
// the next bucket; the tail of the last one is all-reduced, and updated everywhere.
//
// zero2 keeps the gradients that a rank owns, and beside them those of a few buckets: a bucket's
// memory is used again when its reduce-scatter is done, which the bucket after it waits for. So
// each pass of an accumulating step is exchanged, and added to what is owned.
#include "parallel/sharded.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/math.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"

namespace ddpbench {
namespace {

// The buckets in whole units, which may be none, and the tail, if there is one.
std::vector<Bucket> plan_divisible(const std::vector<Bucket>& buckets, std::size_t flat_bytes,
                                   std::size_t unit) {
  std::vector<Bucket> divisible;
  std::size_t begin = 0, last_parameter = 0;
  for (const Bucket& bucket : buckets) {
    last_parameter = bucket.end_parameter;
    const std::size_t bytes = (bucket.offset_bytes + bucket.bytes - begin) / unit * unit;
    divisible.push_back({last_parameter, begin, bytes});
    begin += bytes;
  }
  if (begin < flat_bytes) divisible.push_back({last_parameter, begin, flat_bytes - begin});
  return divisible;
}

// Memory that a bucket takes once `begin` of those before it are complete.
struct Lifetime {
  std::size_t begin = 0, bytes = 0, offset = 0;
};

// Places each where nothing lies that may still be in use: a bucket is given back when the next one
// is complete. Returns the bytes of all together.
std::size_t place(std::vector<Lifetime>& all) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t in_flight = std::min(all[i].begin, i);
    std::vector<Lifetime> used(
        all.begin() + static_cast<std::ptrdiff_t>(in_flight - std::min<std::size_t>(in_flight, 1)),
        all.begin() + static_cast<std::ptrdiff_t>(i));
    std::ranges::sort(used, {}, &Lifetime::offset);
    for (const Lifetime& other : used) {
      if (all[i].offset + all[i].bytes <= other.offset) break;
      all[i].offset = std::max(all[i].offset, other.offset + other.bytes);
    }
    most = std::max(most, all[i].offset + all[i].bytes);
  }
  return most;
}

}  // namespace

void Sharded::adapt(ReplicaOptions& options) {
  options.gradient_sharing = options.weight_sharing = Sharing::mappable;
  options.updates = false;
}

void Sharded::update(float grad_scale, bool stale) {
  if (replica_->loss_scale() != nullptr) find_overflow();
  if (!stale) update_own(grad_scale);
  replica_->end_scaled_step();
  gather_weights();
}

void Sharded::gather_weights() {
  const ScopedPhase phase(context_.observer, Phase::comm_wait, replica_->stream());
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    const BufferView all = range_of(replica_->graph().weights().view(), b);
    followed_[b] = gather(b, part_of(b, all), all, static_cast<int>(started_count() + b));
  }
  for (const comm::Work& work : followed_) work.wait(replica_->stream());
}

void Sharded::parameters_set(bool to_step_0) {
  if (to_step_0 && state_) fill_with_zeros(replica_->device(), replica_->stream(), state_);
}

BufferView Sharded::fetch_gradients() {
  const BufferView gradients = replica_->graph().gradients().view();
  gather_gradients(gradients);
  return gradients;
}

void Sharded::add_parts(std::vector<StatePart>& parts) {
  std::size_t first = 0;
  for (const Bucket& bucket : buckets()) {
    const std::size_t bytes = own_bytes(bucket);
    for (std::size_t part = 0; part * bytes < bucket.bytes; ++part) {
      const auto owner = static_cast<int>(part);
      const bool is_here = bytes == bucket.bytes || owner == world().rank();
      add_slots(parts,
                {.owner = owner, .offset = bucket.offset_bytes + part * bytes, .bytes = bytes},
                config_.optimizer, is_here ? state_.data() : nullptr, owned_, first);
    }
    first += bytes / sizeof(float);
  }
  add_counter(parts, {.bytes = owned_}, config_.optimizer, state_.data(), owned_);
}

std::size_t Sharded::granule() const {
  return static_cast<std::size_t>(world().size()) * nn::kParameterAlignment;
}

bool Sharded::is_divided(std::size_t b) const {
  return buckets()[b].bytes > 0 && buckets()[b].bytes % granule() == 0;
}

std::vector<Bucket> Sharded::plan_transfers(const nn::ParameterPlan& parameters) const {
  return plan_divisible(plan_groups(parameters), parameters.flat_bytes, granule());
}

std::size_t Sharded::own_bytes(const Bucket& bucket) const {
  return bucket.bytes % granule() == 0 ? bucket.bytes / static_cast<std::size_t>(world().size())
                                       : bucket.bytes;
}

std::size_t Sharded::owned_bytes(const std::vector<Bucket>& buckets) const {
  std::size_t sum = 0;
  for (const Bucket& bucket : buckets) sum += own_bytes(bucket);
  return sum;
}

BufferView Sharded::part_of(std::size_t b, const BufferView& bucket) const {
  const auto part = is_divided(b) ? static_cast<std::size_t>(world().rank()) : 0;
  return bucket.slice(part * own_bytes(buckets()[b]), own_bytes(buckets()[b]));
}

comm::Work Sharded::reduce(std::size_t b, const BufferView& bucket, const BufferView& to,
                           const comm::CallOptions& options) {
  if (is_missing(b) || bucket.bytes == 0) return {};
  const comm::Elements all = flat_elements(bucket);
  if (!is_divided(b)) return world().all_reduce(all, comm::ReduceOp::average, options);
  return world().reduce_scatter(all, flat_elements(to), comm::ReduceOp::average, options);
}

std::size_t Sharded::followed_bytes(std::size_t b) const {
  return is_divided(b) ? buckets()[b].bytes : 0;
}

comm::Work Sharded::gather(std::size_t b, const BufferView& part, const BufferView& all, int number,
                           comm::Start start) {
  if (!is_divided(b)) return {};
  return world().all_gather(flat_elements(part), flat_elements(all),
                            {.after = &replica_->stream(), .start = start, .bucket = number});
}

BufferView Sharded::own_weights(std::size_t b) const {
  return part_of(b, range_of(replica_->graph().weights().view(), b));
}

BufferView Sharded::own_gradients(std::size_t b) const {
  return part_of(b, range_of(replica_->graph().gradients().view(), b));
}

void Sharded::gather_gradients(const BufferView& flat) {
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    const BufferView all = range_of(flat, b);
    gather(b, own_gradients(b), all, -1).wait(replica_->stream());
    const bool elsewhere = all.bytes > 0 && own_gradients(b).data != all.data;
    if (!is_divided(b) && elsewhere) {
      replica_->device().copy(replica_->stream(), all, own_gradients(b));
    }
  }
}

std::vector<PlannedBuffer> Sharded::planned(const nn::ParameterPlan& parameters) {
  owned_ = owned_bytes(plan_transfers(parameters)) / sizeof(float);
  return {
      {&state_, MemoryCategory::optimizer, ops::optimizer_state_bytes(config_.optimizer, owned_)}};
}

void Sharded::open(const std::vector<Bucket>& buckets) {
  agree_on(buckets);
  registered_.add(world(), replica_->graph().gradients());
  registered_.add(world(), replica_->graph().resident_weights());
}

comm::Work Sharded::start(std::size_t b, const comm::CallOptions& options) {
  const BufferView bucket = range_of(replica_->graph().gradients().view(), b);
  return reduce(b, bucket, part_of(b, bucket), options);
}

// A rank sees the gradients that it owns, and all must agree whether to skip the update.
void Sharded::find_overflow() {
  Stream& stream = replica_->stream();
  ops::LossScale* const scale = replica_->loss_scale();
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    const std::span<const float> own = own_gradients(b).as<float>();
    context_.backends[0]->find_overflow(stream, own.data(), own.size(), scale);
  }
  const ScopedPhase phase(context_.observer, Phase::comm_wait, stream);
  world()
      .all_reduce({&scale->overflow, 1, DataType::fp32}, comm::ReduceOp::maximum,
                  deferred_after(stream))
      .wait(stream);
}

void Sharded::update_own(float grad_scale) {
  const ScopedPhase phase(context_.observer, Phase::optimizer, replica_->stream());
  std::size_t first = 0;
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    const BufferView weights = own_weights(b);
    const std::size_t count = weights.bytes / sizeof(float);
    if (count == 0) continue;
    context_.backends[0]->update(
        replica_->stream(), {.weights = reinterpret_cast<float*>(weights.data),
                             .gradients = reinterpret_cast<const float*>(own_gradients(b).data),
                             .state = state_.data(),
                             .count = count,
                             .state_count = owned_,
                             .state_first = first,
                             .grad_scale = grad_scale,
                             .loss_scale = replica_->loss_scale(),
                             .options = config_.optimizer});
    first += count;
  }
}

void ShardedGradients::adapt(ReplicaOptions& options) {
  Sharded::adapt(options);
  options.place_gradients = [this](nn::ParameterPlan& plan) { place_gradients(plan); };
}

void ShardedGradients::plan(const nn::ParameterPlan& parameters, MemoryNeeds& needs) {
  GradientExchange::plan(parameters, needs);
  const std::size_t fetched = config_.is_verified ? parameters.flat_bytes : 0;
  needs.add(std::array{PlannedBuffer{&fetched_, MemoryCategory::gradients, fetched}});
}

void ShardedGradients::finish(bool stale) {
  Sharded::finish(stale);
  if (!buckets().empty()) settle(buckets().size() - 1);
}

void ShardedGradients::parameters_set(bool to_step_0) {
  Sharded::parameters_set(to_step_0);
  if (to_step_0) fetched_ = {};
  if (replica_->loss_scale() == nullptr || zeros_) return;
  const std::vector<PlannedBuffer> planned = {
      {&zeros_, MemoryCategory::workspace, granule() + nn::kParameterAlignment}};
  allocate(replica_->device(), planned);
  fill_with_zeros(replica_->device(), replica_->stream(), zeros_);
}

BufferView ShardedGradients::fetch_gradients() {
  const std::size_t bytes = replica_->graph().plan().flat_bytes;
  const std::vector<PlannedBuffer> planned = {{&fetched_, MemoryCategory::gradients, bytes}};
  if (!fetched_) allocate(replica_->device(), planned);
  gather_gradients(fetched_.view());
  return fetched_.view();
}

// Owned gradients come first, then the slots of buckets. A slot begins with room for what comes
// from the bucket before; the tail is nothing else. Gaps between parameters hold what was there
// before. Nobody reads them, nor those between weights.
void ShardedGradients::place_gradients(nn::ParameterPlan& plan) {
  const std::vector<Bucket> groups = plan_groups(plan);
  const std::vector<Bucket> buckets = plan_transfers(plan);
  std::vector<Lifetime> lives;
  std::size_t parameter = 0;
  for (const Bucket& group : groups) {
    std::size_t begin = lives.size();
    for (; parameter < group.end_parameter; ++parameter) {
      const std::size_t after = plan.written_after[parameter];
      const auto complete = std::ranges::count_if(
          groups, [&](const Bucket& one) { return one.end_parameter <= after; });
      begin = std::min(begin, static_cast<std::size_t>(complete));
    }
    lives.push_back({begin, granule() + group.bytes});
  }
  if (buckets.size() > groups.size()) lives.push_back({lives.size(), granule()});
  const std::size_t owned = owned_bytes(buckets);
  plan.gradient_bytes = owned + place(lives);
  slots_.clear();
  std::size_t before = 0;
  parameter = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const bool is_group = b < groups.size();
    const std::size_t from = is_group ? groups[b].offset_bytes : plan.flat_bytes;
    const std::size_t carry = from - buckets[b].offset_bytes;
    const std::size_t at = owned + lives[b].offset + granule();
    slots_.push_back({at - carry, carry, before});
    before += own_bytes(buckets[b]);
    for (; is_group && parameter < groups[b].end_parameter; ++parameter) {
      const std::size_t in_group = plan.parameters[parameter].offset_bytes - from;
      plan.gradient_offsets[parameter] = at + in_group;
    }
  }
}

std::size_t Sharded::most_together(const nn::ParameterPlan& parameters) {
  constexpr std::size_t kParts = 8, kLeast = 128 * kKiB;
  return std::max(parameters.flat_bytes / kParts, kLeast);
}

std::vector<Bucket> ShardedGradients::plan_groups(const nn::ParameterPlan& parameters) const {
  const std::size_t most = most_together(parameters);
  return plan_buckets(parameters, std::min(most, config_.first_bucket_bytes),
                      std::min(most, config_.bucket_cap_bytes));
}

// Behind a parameter that ends within a line, or a unit within a granule, lies what a bucket of a
// step before had there, which may be infinite.
void ShardedGradients::begin_step() {
  if (!zeros_) return;
  const nn::ParameterPlan& plan = replica_->graph().plan();
  const BufferView all = replica_->graph().gradients().view();
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::size_t bytes = plan.parameters[i].bytes;
    const bool is_last = i + 1 == plan.parameters.size();
    const std::size_t next = is_last ? plan.flat_bytes : plan.parameters[i + 1].offset_bytes;
    const std::size_t gap = next - plan.parameters[i].offset_bytes - bytes;
    if (gap == 0) continue;
    replica_->device().copy(replica_->stream(), all.slice(plan.gradient_offsets[i] + bytes, gap),
                            zeros_.view().slice(0, gap));
  }
}

BufferView ShardedGradients::in_slot(std::size_t b) const {
  return replica_->graph().gradients().view().slice(slots_[b].offset, buckets()[b].bytes);
}

BufferView ShardedGradients::own_gradients(std::size_t b) const {
  return replica_->graph().gradients().view().slice(slots_[b].owned, own_bytes(buckets()[b]));
}

comm::Work ShardedGradients::start(std::size_t b, const comm::CallOptions& options) {
  const BufferView to = pass() == 0 ? own_gradients(b) : part_of(b, in_slot(b));
  comm::Work work = reduce(b, in_slot(b), to, options);
  if (b > 0) {
    {
      const ScopedPhase phase(context_.observer, Phase::comm_wait, replica_->stream());
      started(b - 1).wait(replica_->stream());
    }
    settle(b - 1);
  }
  if (b + 1 < buckets().size() && slots_[b + 1].carry > 0) {
    const BufferView all = replica_->graph().gradients().view();
    const Slot& next = slots_[b + 1];
    replica_->device().copy(replica_->stream(), all.slice(next.offset, next.carry),
                            all.slice(slots_[b].offset + buckets()[b].bytes, next.carry));
  }
  return work;
}

// Brings to the owned gradients what is done in the slot: what later passes add, and the tail.
void ShardedGradients::settle(std::size_t b) {
  const BufferView to = own_gradients(b), from = part_of(b, in_slot(b));
  if (to.bytes == 0) return;
  if (pass() == 0) {
    if (!is_divided(b)) replica_->device().copy(replica_->stream(), to, from);
    return;
  }
  add(*context_.backends[0], replica_->stream(), to, 1, from.data);
}

}  // namespace ddpbench
