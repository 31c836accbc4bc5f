// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `zero3`: as zero2, and the weights are in parts, too (ZeRO stage 3; PyTorch's FSDP: Zhao et al.,
// VLDB 2023). Consecutive layers make a unit, whose weights are gathered before its forward and
// again before its backward, while the unit before it is computed, into one of two places that
// units take in turn.
//
// Wire, per rank and step: (n-1)/n S bytes of gradients, twice as many of weights. Memory: an n-th
// of weights, gradients and the optimizer's state, and two units of weights and gradients.
//
// Units begin at whole lines for each rank, so that a unit is a bucket, and no tail is left.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/math.h"
#include "parallel/replica.h"
#include "parallel/sharded.h"
#include "parallel/step_parts.h"

namespace ddpbench {
namespace {

// Packs what layers keep together into units of at most `cap` bytes, or one such part.
std::vector<Bucket> plan_units(const nn::ParameterPlan& plan, std::size_t cap) {
  const auto begin_of = [&plan](std::size_t i) {
    return i < plan.parameters.size() ? plan.parameters[i].offset_bytes : plan.flat_bytes;
  };
  std::vector<Bucket> units;
  for (std::size_t i = 0, end = 0; i < plan.parameters.size(); i = end) {
    for (end = i + 1; end < plan.parameters.size() && !plan.may_begin_unit[end];) ++end;
    const std::size_t bytes = begin_of(end) - begin_of(i);
    if (units.empty() || units.back().bytes + bytes > cap) units.push_back({i, begin_of(i), 0});
    units.back().end_parameter = end;
    units.back().bytes += bytes;
  }
  return units;
}

class ShardedUnits final : public ShardedGradients, public nn::WeightStore {
 public:
  using ShardedGradients::ShardedGradients;

  void adapt(ReplicaOptions& options) override {
    ShardedGradients::adapt(options);
    options.store = this;
    options.place_gradients = [this](nn::ParameterPlan& plan) {
      place_units(plan);
      place_gradients(plan);
    };
  }

  void plan(const nn::ParameterPlan& parameters, MemoryNeeds& needs) override {
    if (context_.initialize) check_largest(parameters, needs.device());  // else only a plan is made
    ShardedGradients::plan(parameters, needs);
    Buffer whole;
    const bool holds = config_.is_verified || config_.is_saved;
    const std::size_t held = holds ? parameters.weight_bytes : 0;
    needs.add(std::array{PlannedBuffer{&whole, MemoryCategory::weights, held}});
  }

  bool skips_step() override {
    replica_->graph().drop_whole();  // who asked for all weights has read them by now
    followed_.resize(2 * buckets().size() * static_cast<std::size_t>(config_.accumulation_steps));
    followed_units_.clear();
    forget();
    in_step_ = true;
    return false;
  }
  void parameters_set(bool to_step_0) override {
    ShardedGradients::parameters_set(to_step_0);
    replica_->graph().drop_whole();
    forget();
  }
  BufferView fetch_gradients() override {
    publish();
    return ShardedGradients::fetch_gradients();
  }
  void command_servers(Transfer transfer) override {
    if (transfer == Transfer::save) publish();
  }

  void publish() override {
    nn::Graph& graph = replica_->graph();
    Stream& stream = replica_->stream();
    graph.hold_whole();
    const BufferView all = graph.weights().view();
    for (std::size_t u = 0; u < buckets().size(); ++u) {
      gather(u, own_weights(u), range_of(all, u), -1).wait(stream);
    }
    const nn::ParameterPlan& plan = graph.plan();
    if (const std::size_t frozen = plan.frozen_bytes(); frozen > 0) {
      replica_->device().copy(
          stream, all.slice(plan.flat_bytes, frozen),
          graph.resident_weights().view().slice(plan.resident_bytes - frozen, frozen));
    }
    stream.synchronize();
  }

  bool use(std::size_t unit, bool forward, Stream& stream) override {
    if (current_ == unit) return false;
    current_ = unit;
    bring(unit);
    {
      const ScopedPhase phase(in_step_ ? context_.observer : nullptr, Phase::comm_wait, stream);
      places_[unit % 2].work.wait(stream);
    }
    if (forward && unit > 0) bring(unit - 1);
    if (!forward && unit + 1 < buckets().size()) bring(unit + 1);
    return true;
  }

  Kept kept(std::size_t offset, std::size_t bytes) const override {
    for (std::size_t u = 0; u < buckets().size(); ++u) {
      const BufferView own = own_weights(u);
      const std::size_t at =
          buckets()[u].offset_bytes + static_cast<std::size_t>(world().rank()) * own.bytes;
      const std::size_t begin = std::max(at, offset);
      const std::size_t end = std::min(at + own.bytes, offset + bytes);
      if (begin < end) return {own.slice(begin - at, end - begin), begin};
    }
    return {};
  }

  void put(std::size_t offset, const BufferView& values) override {
    if (const Kept own = kept(offset, values.bytes); own.memory.bytes > 0) {
      replica_->device().copy(replica_->stream(), own.memory,
                              values.slice(own.offset - offset, own.memory.bytes));
      replica_->stream().synchronize();
    }
    forget();
  }

 private:
  struct Place {
    std::size_t offset = 0;           // in the resident weights
    std::optional<std::size_t> unit;  // what is there, or on its way
    comm::Work work;                  // that brings it
  };

  std::vector<Bucket> plan_groups(const nn::ParameterPlan& plan) const override {
    if (plan.has_units()) return placed_;
    return plan_units(plan, config_.unit_bytes > 0 ? config_.unit_bytes : most_together(plan));
  }

  // Moves units to whole granules, and gives their weights the two places.
  void place_units(nn::ParameterPlan& plan) {
    const std::vector<Bucket> units = plan_groups(plan);
    std::array<std::size_t, 2> most = {};
    for (std::size_t u = 0; u < units.size(); ++u) {
      most[u % 2] = std::max(most[u % 2], round_up(units[u].bytes, granule()));
    }
    places_[1].offset = most[0];
    placed_.clear();
    std::size_t parameter = 0, moved = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::size_t bytes = round_up(units[u].bytes, granule());
      placed_.push_back({units[u].end_parameter, units[u].offset_bytes + moved, bytes});
      for (; parameter < units[u].end_parameter; ++parameter) {
        std::size_t& offset = plan.parameters[parameter].offset_bytes;
        plan.weight_offsets.push_back(places_[u % 2].offset + offset - units[u].offset_bytes);
        offset += moved;
      }
      moved += bytes - units[u].bytes;
      plan.units.push_back(parameter);
    }
    for (nn::ParameterInfo& frozen : plan.frozen) {
      plan.weight_offsets.push_back(most[0] + most[1] + frozen.offset_bytes - plan.flat_bytes);
      frozen.offset_bytes += moved;
    }
    plan.resident_bytes = most[0] + most[1] + plan.frozen_bytes();
    plan.flat_bytes += moved;
    plan.weight_bytes += moved;
  }

  // Throws ConfigError where the device cannot hold the largest unit.
  void check_largest(const nn::ParameterPlan& plan, const Device& device) const {
    const auto largest = std::ranges::max_element(placed_, {}, &Bucket::bytes);
    const std::optional<std::size_t> free = device.free_bytes();
    if (largest == placed_.end() || !free || largest->bytes <= *free) return;
    const std::string& layer = plan.parameters[largest->end_parameter - 1].name;
    throw ConfigError(
        fmt::format("the unit that begins with {} has {} bytes of weights, and {} has {} free; use "
                    "a smaller --unit-mb",
                    layer, largest->bytes, device.name(), *free));
  }

  std::vector<PlannedBuffer> planned(const nn::ParameterPlan& parameters) override {
    std::vector<PlannedBuffer> planned = ShardedGradients::planned(parameters);
    planned.push_back(
        {&shard_, MemoryCategory::weights, owned_ * sizeof(float), Sharing::mappable});
    return planned;
  }
  void open(const std::vector<Bucket>& units) override {
    ShardedGradients::open(units);
    registered_.add(world(), shard_);
  }

  BufferView own_weights(std::size_t u) const override {
    const auto ranks = static_cast<std::size_t>(world().size());  // units lie without gaps
    return shard_.view().slice(buckets()[u].offset_bytes / ranks, buckets()[u].bytes / ranks);
  }

  // They come before their next use.
  void gather_weights() override {
    in_step_ = false;
    forget();
  }
  void forget() {
    current_ = std::nullopt;
    for (Place& place : places_) place.unit = std::nullopt;
  }
  std::size_t followed_bytes(std::size_t i) const override {
    return i < followed_units_.size() ? buckets()[followed_units_[i]].bytes : 0;
  }

  // Queues the gathering of a unit that is not there.
  void bring(std::size_t u) {
    Place& place = places_[u % 2];
    if (place.unit == u) return;
    place.unit = u;
    const BufferView to =
        replica_->graph().resident_weights().view().slice(place.offset, buckets()[u].bytes);
    const std::size_t number = started_count() + followed_units_.size();
    place.work = gather(u, own_weights(u), to, in_step_ ? static_cast<int>(number) : -1,
                        config_.overlap ? comm::Start::now : comm::Start::deferred);
    if (!in_step_) return;
    followed_[followed_units_.size()] = place.work;
    followed_units_.push_back(u);
  }

  std::vector<Bucket> placed_;               // the units
  Buffer shard_;                             // this rank's parts of all units
  std::array<Place, 2> places_;              // of even and odd units
  std::optional<std::size_t> current_;       // the unit that is computed
  std::vector<std::size_t> followed_units_;  // what the step gathered, in order: followed_'s units
  bool in_step_ = false;                     // and not in an evaluation, which has no phases
  Registrations registered_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_sharded_units(const StrategyConfig& config,
                                                     const StrategyContext& context) {
  return std::make_unique<ShardedUnits>(config, context);
}

}  // namespace ddpbench
