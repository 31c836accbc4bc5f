// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/training_state.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/nn/checkpoint.h"
#include "kernels/nn/weights.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"

namespace ddpbench {
namespace {

using Kind = StatePart::Kind;

// As torch.optim calls them.
constexpr std::array<const char*, 1> kSgdSlots = {"momentum_buffer"};
constexpr std::array<const char*, ops::kMostSlots> kAdamSlots = {"exp_avg", "exp_avg_sq"};
constexpr const char *kOptimizer = "optimizer.", *kLossScale = "loss_scale";

// As integers: the scale is a power of two. Updates that were skipped are no updates of Adam's.
nn::NamedTensor tensor_of(const std::string& name, const ops::LossScale& scale) {
  return {.name = name,
          .shape = {3},
          .values = {},
          .type = DataType::int64,
          .integers = {static_cast<std::int64_t>(scale.scale), scale.good_steps, scale.skipped}};
}
ops::LossScale loss_scale_of(const nn::NamedTensor& tensor) {
  if (tensor.integers.size() != 3 || tensor.integers[0] < 1) {
    throw ConfigError(fmt::format("\"{}\" is no scale", tensor.name));
  }
  const auto scale = static_cast<float>(tensor.integers[0]);
  return {.scale = scale,
          .good_steps = static_cast<std::int32_t>(tensor.integers[1]),
          .last_scale = scale,
          .skipped = tensor.integers[2]};
}

std::string prefix_of(int replica) { return replica == 0 ? "" : fmt::format("rank{}.", replica); }
// Of what belongs to no parameter.
std::string name_of(const std::string& own, int replica) {
  return prefix_of(replica) + kOptimizer + own;
}
std::string name_of(const StatePart& part, int replica, const std::string& tensor) {
  return part.kind == Kind::state ? prefix_of(replica) + tensor
                                  : name_of(part.name + "." + tensor, replica);
}

// Moves the parts of one strategy between ranks.
class StateMover {
 public:
  StateMover(Strategy& strategy, comm::Communicator* world)
      : strategy_(strategy),
        world_(world),
        replica_(*strategy.updated_replicas()[0]),
        graph_(replica_.graph()),
        parts_(in_order(strategy.parts())) {}

  std::vector<nn::NamedTensor> gather() {
    std::vector<nn::NamedTensor> tensors;
    if (is_root()) tensors = nn::export_checkpoint(graph_);
    const bool borrows = is_root() && std::ranges::count(parts_, Kind::state, &StatePart::kind) > 0;
    std::vector<nn::NamedTensor> own;  // the statistics, in whose place others come
    if (borrows) own = nn::export_state(graph_);
    for_each_buffer([&](std::span<const StatePart> parts) {
      if (parts[0].kind == Kind::counter) return;
      const BufferView flat = bring(parts);
      if (is_root()) name(parts[0], flat, tensors);
    });
    set_state(own);
    if (!is_root()) return tensors;
    if (const auto scale = replica_.read_loss_scale())
      tensors.push_back(tensor_of(name_of(kLossScale, 0), *scale));
    return tensors;
  }

  void scatter(const std::vector<nn::NamedTensor>& tensors, std::int64_t steps) {
    for (const nn::NamedTensor& tensor : tensors) by_name_[tensor.name] = &tensor;
    ops::LossScale scale = saved_scale(0);
    for_each_buffer([&](std::span<const StatePart> parts) {
      const auto concerns = [&](const StatePart& part) {
        return part.memory.data != nullptr || (is_root() && part.is_on_server);
      };
      if (std::ranges::none_of(parts, concerns)) return;
      const StatePart& first = parts[0];
      if (first.kind == Kind::state) return set_own_state(first);
      if (first.kind == Kind::scale) {
        scale = saved_scale(first.replica);
        return;
      }
      const std::optional<BufferView> flat =
          first.kind == Kind::numbers ? fill_numbers(first)
          : first.kind == Kind::counter
              ? counter((steps - saved_scale(first.replica).skipped) * first.updates_per_step)
              : fill(first);
      if (flat) give(parts, *flat);
    });
    zeroed();
    for (Replica* replica : strategy_.replicas()) {
      replica->graph().set_steps(replica->stream(), steps);
      if (replica->loss_scale() != nullptr) replica->set_loss_scale(scale);
    }
  }

 private:
  bool is_root() const { return rank() == 0; }
  int rank() const { return world_ == nullptr ? 0 : world_->rank(); }
  Stream& stream() const { return replica_.stream(); }
  Device& device() const { return replica_.device(); }

  template <typename Use>
  void for_each_buffer(const Use& use) {
    for (auto begin = parts_.begin(); begin != parts_.end();) {
      const auto end = std::find_if(
          begin, parts_.end(), [&](const StatePart& part) { return part.key() != begin->key(); });
      use(std::span<const StatePart>(begin, end));
      begin = end;
    }
  }

  // Memory of the size of the flat buffer: that of gradients, which the next step overwrites, or,
  // where it is smaller, some of its own.
  BufferView scratch() {
    const std::size_t bytes = graph_.plan().flat_bytes;
    const BufferView gradients = graph_.gradients().view();
    if (gradients.bytes >= bytes) return gradients.slice(0, bytes);
    const std::vector<PlannedBuffer> planned = {
        {&scratch_, MemoryCategory::communication, bytes, Sharing::mappable}};
    if (!scratch_) allocate(device(), planned);
    return scratch_.view();
  }

  // Gaps between parameters are zero.
  BufferView zeroed() {
    const BufferView view = scratch();
    fill_with_zeros(device(), stream(), scratch_ ? scratch_ : graph_.gradients());
    return view;
  }

  // Brings the parts of one buffer to rank 0, and returns the buffer there.
  BufferView bring(std::span<const StatePart> parts) {
    const StatePart& first = parts[0];
    const bool is_whole = first.kind == Kind::numbers || first.bytes == graph_.plan().flat_bytes;
    if (is_root() && first.owner == 0 && is_whole) return first.memory;
    const bool is_state = first.kind == Kind::state;
    const BufferView to = !is_root() ? BufferView{} : is_state ? graph_.state().view() : scratch();
    for (const StatePart& part : parts) {
      if (part.owner == rank() && !is_root()) send(part.memory, 0);
      if (!is_root()) continue;
      const BufferView range = to.slice(part.offset, part.bytes);
      if (part.owner == 0) {
        device().copy(stream(), range, part.memory);
      } else {
        world_->recv(flat_elements(range), part.owner, deferred_after(stream())).wait(stream());
      }
    }
    return to;
  }

  void give(std::span<const StatePart> parts, const BufferView& flat) {
    for (const StatePart& part : parts) {
      const BufferView range = flat.slice(part.offset, part.bytes);
      if (part.memory.data != nullptr) device().copy(stream(), part.memory, range);
      if (is_root() && part.is_on_server) send(range, part.owner);
    }
    stream().synchronize();
  }

  void send(const BufferView& view, int to) {
    world_->send(flat_elements(view), to, deferred_after(stream())).wait(stream());
  }

  // Appends what was brought as tensors.
  void name(const StatePart& part, const BufferView& flat, std::vector<nn::NamedTensor>& tensors) {
    if (part.kind == Kind::numbers) {
      std::vector<float> values(part.bytes / sizeof(float));
      copy_to_host(std::as_writable_bytes(std::span(values)), flat);
      tensors.push_back({.name = name_of(part.name, part.replica),
                         .shape = {static_cast<std::int64_t>(values.size())},
                         .values = std::move(values)});
      return;
    }
    if (part.kind == Kind::scale) {
      ops::LossScale scale;
      copy_to_host(std::as_writable_bytes(std::span(&scale, 1)), flat);
      tensors.push_back(tensor_of(name_of(part.name, part.replica), scale));
      return;
    }
    std::vector<nn::NamedTensor> named =
        part.kind == Kind::state ? nn::export_state(graph_) : nn::export_gradients(graph_, flat);
    for (nn::NamedTensor& tensor : named) {
      tensor.name = name_of(part, part.replica, tensor.name);
      tensors.push_back(std::move(tensor));
    }
  }

  void copy_to_host(std::span<std::byte> to, const BufferView& from) {
    device().copy(stream(), {to.data(), to.size()}, from.slice(0, to.size()));
    stream().synchronize();
  }

  // That of a replica, or where that was not saved, of the first one.
  ops::LossScale saved_scale(int replica) const {
    for (const int from : {replica, 0}) {
      const auto found = by_name_.find(name_of(kLossScale, from));
      if (found != by_name_.end()) return loss_scale_of(*found->second);
    }
    return {};
  }

  // Nothing where numbers are to stay as they are.
  std::optional<BufferView> fill_numbers(const StatePart& part) {
    const auto found = by_name_.find(name_of(part.name, part.replica));
    if (found == by_name_.end()) return std::nullopt;
    const std::span<const std::byte> bytes = nn::bytes_of(*found->second);
    if (bytes.size() != part.bytes) return std::nullopt;
    const BufferView flat = scratch();
    device().copy(stream(), flat.slice(0, part.bytes),
                  {const_cast<std::byte*>(bytes.data()), bytes.size()});
    return flat;
  }

  // The tensor of a replica, or where that was not saved, of the first one; null: there is none.
  const nn::NamedTensor* find(const StatePart& part, const std::string& tensor) const {
    for (const int replica : {part.replica, part.kind == Kind::extra ? part.replica : 0}) {
      const auto found = by_name_.find(name_of(part, replica, tensor));
      if (found != by_name_.end()) return found->second;
    }
    return nullptr;
  }

  // Returns the flat buffer with the tensors of a slot; nothing where it is to stay zero.
  std::optional<BufferView> fill(const StatePart& part) {
    const BufferView flat = zeroed();
    const std::vector<nn::ParameterInfo>& parameters = graph_.plan().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const nn::NamedTensor* const tensor = find(part, parameters[i].name);
      if (tensor == nullptr && part.kind == Kind::extra) return std::nullopt;
      if (tensor == nullptr || tensor->shape != parameters[i].shape) {
        throw ConfigError(fmt::format("\"{}\" is missing, or of another shape",
                                      name_of(part, 0, parameters[i].name)));
      }
      graph_.import_parameter(i, tensor->values, flat);
    }
    return flat;
  }

  BufferView counter(std::int64_t steps) {
    ops::OptimizerStep step{.updates = steps};
    device().copy(stream(), zeroed().slice(0, sizeof(step)),
                  {reinterpret_cast<std::byte*>(&step), sizeof(step)});
    stream().synchronize();
    return scratch();
  }

  void set_own_state(const StatePart& part) {
    std::vector<nn::NamedTensor> state;
    for (const nn::StateInfo& info : graph_.plan().state) {
      const nn::NamedTensor* const tensor = find(part, info.name);
      if (tensor == nullptr) return;  // it has that of the first replica
      state.push_back(*tensor);
    }
    set_state(state);
  }
  void set_state(const std::vector<nn::NamedTensor>& state) {
    for (std::size_t i = 0; i < state.size(); ++i) graph_.import_state(i, bytes_of(state[i]));
  }

  Strategy& strategy_;
  comm::Communicator* world_;
  Replica& replica_;
  nn::Graph& graph_;
  std::vector<StatePart> parts_;
  Buffer scratch_;
  std::map<std::string, const nn::NamedTensor*> by_name_;
};

// The tensors that StateMover::gather gives for a part of the network, if `own` are those of rank
// 0's part: weights and statistics, then what the optimizer keeps of each weight.
std::vector<nn::TensorInfo> infos_like(const nn::ModelSpec& part, const nn::ModelSpec& own_part,
                                       const std::vector<nn::TensorInfo>& own) {
  std::vector<nn::TensorInfo> infos = nn::checkpoint_tensors(part);
  const std::vector<nn::TensorInfo> trained(infos.begin(), infos.begin() + part.tensor_count());
  const std::vector<nn::TensorInfo> own_infos = nn::checkpoint_tensors(own_part);
  for (std::size_t i = own_infos.size(); i < own.size();
       i += static_cast<std::size_t>(own_part.tensor_count())) {
    const std::string prefix = own[i].name.substr(0, own[i].name.size() - own_infos[0].name.size());
    for (nn::TensorInfo info : trained) {
      info.name = prefix + info.name;
      infos.push_back(std::move(info));
    }
  }
  return infos;
}

// Tensor i of those is a weight, a frozen one, a statistic, or of the optimizer.
std::size_t kind_of(const nn::ModelSpec& part, std::size_t i) {
  const auto all = nn::checkpoint_tensors(part).size();
  const auto state = static_cast<std::size_t>(part.state_tensor_count());
  if (i < static_cast<std::size_t>(part.tensor_count())) return 0;
  return i < all - state ? 1 : i < all ? 2 : 3;
}

// Brings the tensors of the parts of a network to rank 0, one after the other.
class PartMover {
 public:
  PartMover(Replica& replica, comm::Communicator& world) : replica_(replica), world_(world) {}

  void send(const std::vector<nn::NamedTensor>& tensors) {
    for (const nn::NamedTensor& tensor : tensors) {
      const std::span<const std::byte> bytes = nn::bytes_of(tensor);
      const BufferView view = room(bytes.size());
      replica_.device().copy(stream(), view, {const_cast<std::byte*>(bytes.data()), bytes.size()});
      world_.send(flat_elements(view), 0, deferred_after(stream())).wait(stream());
    }
    stream().synchronize();
  }
  nn::NamedTensor receive(const nn::TensorInfo& info, int from) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(ops::element_count(info.shape)) *
                                 size_of(info.type));
    const BufferView view = room(bytes.size());
    world_.recv(flat_elements(view), from, deferred_after(stream())).wait(stream());
    replica_.device().copy(stream(), {bytes.data(), bytes.size()}, view);
    stream().synchronize();
    return nn::tensor_of(info, bytes);
  }

 private:
  Stream& stream() { return replica_.stream(); }
  BufferView room(std::size_t bytes) {
    if (room_.bytes() < bytes) {
      stream().synchronize();
      room_ = Buffer{};
      allocate(replica_.device(),
               std::vector<PlannedBuffer>{{&room_, MemoryCategory::communication, bytes}});
    }
    return room_.view().slice(0, bytes);
  }

  Replica& replica_;
  comm::Communicator& world_;
  Buffer room_;
};

// All tensors of the network, in the order of one that is not split.
std::vector<nn::NamedTensor> gather_parts(Strategy& strategy, comm::Communicator& world,
                                          const std::vector<nn::ModelSpec>& parts) {
  const auto rank = static_cast<std::size_t>(world.rank());
  if (rank >= parts.size()) return {};
  std::vector<nn::NamedTensor> own = StateMover(strategy, nullptr).gather();
  PartMover mover(*strategy.replicas()[0], world);
  if (rank > 0) {
    mover.send(own);
    return {};
  }
  const std::vector<nn::TensorInfo> names = nn::infos_of(own);
  std::array<std::vector<nn::NamedTensor>, 4> kinds;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::vector<nn::TensorInfo> infos = infos_like(parts[part], parts[0], names);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      kinds[kind_of(parts[part], i)].push_back(
          part == 0 ? std::move(own[i]) : mover.receive(infos[i], static_cast<int>(part)));
    }
  }
  std::vector<nn::NamedTensor> tensors;
  for (auto& kind : kinds) std::ranges::move(kind, std::back_inserter(tensors));
  return tensors;
}

}  // namespace

std::vector<nn::NamedTensor> gather_state(Strategy& strategy, comm::Communicator* world) {
  const std::vector<nn::ModelSpec> parts = strategy.split();
  if (parts.size() > 1) return gather_parts(strategy, *world, parts);
  strategy.command_servers(Transfer::save);
  return StateMover(strategy, world).gather();
}

std::vector<nn::NamedTensor> gather_weights(Strategy& strategy, comm::Communicator* world) {
  if (strategy.split().size() > 1) {
    std::vector<nn::NamedTensor> tensors = gather_state(strategy, world);
    std::erase_if(tensors, [](const auto& one) { return one.name.starts_with(kOptimizer); });
    return tensors;
  }
  const bool is_here = world == nullptr || world->rank() == 0;
  return is_here ? nn::export_checkpoint(strategy.replicas()[0]->graph())
                 : std::vector<nn::NamedTensor>{};
}

void scatter_state(Strategy& strategy, comm::Communicator* world,
                   const std::vector<nn::NamedTensor>& tensors, std::int64_t steps) {
  strategy.command_servers(Transfer::load);
  StateMover(strategy, world).scatter(tensors, steps);
}

// ---- what state_parts.h declares ----

void add_slots(std::vector<StatePart>& parts, const StatePart& where,
               const ops::OptimizerOptions& options, std::byte* state, std::size_t count,
               std::size_t first, const std::string& prefix) {
  if (where.bytes == 0) return;
  ops::OptimizerState here;
  if (state != nullptr) here = ops::optimizer_state(options, state, count);
  for (std::size_t k = 0; k < ops::slot_count(options); ++k) {
    StatePart& part = parts.emplace_back(where);
    part.name = prefix + (options.is_adaptive() ? kAdamSlots[k] : kSgdSlots[k]);
    if (here.slots[k] == nullptr) continue;
    part.memory = {reinterpret_cast<std::byte*>(here.slots[k] + first), where.bytes};
  }
}

void add_counter(std::vector<StatePart>& parts, const StatePart& where,
                 const ops::OptimizerOptions& options, std::byte* state, std::size_t count) {
  if (where.bytes == 0 || !options.counts_updates()) return;
  StatePart& part = parts.emplace_back(where);
  part.kind = StatePart::Kind::counter;
  part.offset = 0;
  part.bytes = sizeof(ops::OptimizerStep);
  if (state == nullptr) return;
  ops::OptimizerStep* const step = ops::optimizer_state(options, state, count).step;
  part.memory = {reinterpret_cast<std::byte*>(step), part.bytes};
}

std::vector<StatePart> in_order(std::vector<StatePart> parts) {
  std::erase_if(parts, [](const StatePart& part) { return part.bytes == 0; });
  std::ranges::stable_sort(parts, {}, &StatePart::key);
  return parts;
}

}  // namespace ddpbench
