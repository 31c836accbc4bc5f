// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/server_shard.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr comm::Start kServerStart =
    comm::Start::deferred;  // a server has nothing else to do meanwhile

// The engines that span hosts send a push when its receive is posted, so a server can let workers
// push one after the other: flows that meet at its link overrun its queue. Pushes of 8 workers over
// links of 100 Mbit/s take 1.05 to 1.07 n S/B to one server so, and 1.12 to 1.27 all at once. Where
// servers are many, the workers' links are full, and a server that waits leaves its own idle.
//
// With more than so many workers a server, a server's link is full long before its workers' are.
constexpr int kWorkersOfAFullServer = 2;

// Pushes that are applied one by one move the parameters by as much as their mean would. What is
// kept of a gradient decays by as much in a push of each worker as in one update by the mean.
ops::OptimizerOptions of_each_push(ops::OptimizerOptions options, int workers) {
  if (options.is_adaptive()) options.momentum = 0;
  const double momentum = options.momentum;
  for (double* kept : {&options.momentum, &options.beta1, &options.beta2}) {
    *kept = std::pow(*kept, 1.0 / workers);
  }
  ops::LrSchedule& schedule = options.schedule;
  const double share = (1 - options.momentum) / (1 - momentum) / workers;
  for (double* rate : {&options.lr, &schedule.least}) *rate *= share;
  for (auto* updates : {&schedule.step_size, &schedule.cosine_steps, &schedule.warmup_steps}) {
    *updates *= workers;
  }
  return options;
}

std::size_t parameters_before(const nn::ParameterPlan* plan, std::uint64_t end) {
  if (plan == nullptr) return 0;
  std::size_t i = 0;
  while (i < plan->parameters.size() && plan->parameters[i].offset_bytes < end) ++i;
  return i;
}

}  // namespace

std::vector<Bucket> plan_shards(std::uint64_t flat_bytes, int servers,
                                const nn::ParameterPlan* plan) {
  const std::uint64_t units = ceil_div(flat_bytes, kAlignment);
  const auto count = static_cast<std::uint64_t>(servers);
  std::vector<Bucket> shards;
  for (std::uint64_t s = 0; s < count; ++s) {
    const std::uint64_t begin = std::min(flat_bytes, units * s / count * kAlignment);
    const std::uint64_t end = std::min(flat_bytes, units * (s + 1) / count * kAlignment);
    shards.push_back({parameters_before(plan, end), begin, end - begin});
  }
  return shards;
}

void add_server_parts(std::vector<StatePart>& parts, const StrategyConfig& config, int server,
                      const Bucket& shard, std::byte* state) {
  const StatePart where{.owner = config.replicas + server,
                        .is_on_server = true,
                        .offset = shard.offset_bytes,
                        .bytes = shard.bytes,
                        .updates_per_step = config.max_staleness > 0 ? config.replicas : 1};
  const std::size_t count = shard.bytes / sizeof(float);
  add_slots(parts, where, config.optimizer, state, count);
  add_counter(parts, where, config.optimizer, state, count);
}

ServerShard::ServerShard(const StrategyConfig& config, const StrategyContext& context, int index)
    : config_(config),
      context_(context),
      index_(index),
      optimizer_(config.max_staleness == 0 ? config.optimizer
                                           : of_each_push(config.optimizer, config.replicas)) {
  Device& device = *context.devices[0];
  const auto workers = static_cast<std::size_t>(config.replicas);
  const PlanSummary summary = agree_on_plan(*context.world, device, nullptr);
  const Bucket shard =
      plan_shards(summary.flat_bytes, config.servers, nullptr)[static_cast<std::size_t>(index)];
  count_ = shard.bytes / sizeof(float);
  slot_bytes_ = round_up(shard.bytes, kAlignment);
  takes_turns_ = context.world_spans_hosts && device.kind() == DeviceKind::cpu &&
                 config.replicas > kWorkersOfAFullServer * config.servers;
  stream_ = device.make_stream();
  make_buffers();
  for (const Buffer* buffer : {&pushed_, &gradient_, &weights_}) {
    registered_.add(*context.world, *buffer);
  }
  for (std::size_t w = 0; w < workers; ++w) {
    pushed_views_.push_back(static_cast<const float*>(shard_of(pushed_, w).data));
  }
  works_.reserve(workers);
  commands_.resize(config.backup_workers > 0 ? 2 * workers : workers);
}

void ServerShard::make_buffers() {
  constexpr Sharing kShared = Sharing::mappable;
  const auto workers = static_cast<std::size_t>(config_.replicas);
  const bool updates = config_.ps_update == PsUpdate::server;
  // A registered buffer needs an address, even where it holds nothing.
  const auto some = [](std::size_t bytes) { return std::max<std::size_t>(bytes, kAlignment); };
  const std::vector<PlannedBuffer> planned = {
      {&pushed_, MemoryCategory::communication, some(workers * slot_bytes_), kShared},
      {&gradient_, MemoryCategory::gradients, some(slot_bytes_), kShared},
      {&weights_, MemoryCategory::weights, some(updates ? slot_bytes_ : 0), kShared},
      {&optimizer_state_, MemoryCategory::optimizer,
       updates ? ops::optimizer_state_bytes(config_.optimizer, count_) : 0}};
  Device& device = *context_.devices[0];
  if (context_.admit) {
    MemoryNeeds needs(device);
    needs.add(planned);
    context_.admit(0, needs);
  }
  allocate(device, planned);
}

comm::Elements ServerShard::shard_of(const Buffer& buffer, std::size_t slot) const {
  return {buffer.data() + slot * slot_bytes_, count_, DataType::fp32};
}

ServedPushes ServerShard::serve() {
  for (;;) {
    switch (next_command()) {
      case ServerCommand::push:
        handle_push();
        break;
      case ServerCommand::reset:
        receive_parameters();
        served_ = {};
        if (optimizer_state_) {
          fill_with_zeros(*context_.devices[0], *stream_, optimizer_state_);
        }
        break;
      case ServerCommand::assign:
        receive_parameters();
        break;
      case ServerCommand::gradients:
        send_to_all(shard_of(gradient_));
        break;
      case ServerCommand::weights:
        send_to_all(shard_of(weights_));
        break;
      case ServerCommand::save:
        transfer(Transfer::save);
        break;
      case ServerCommand::load:
        transfer(Transfer::load);
        break;
      case ServerCommand::goodbye:
        stream_->synchronize();
        return served_;
    }
  }
}

void ServerShard::handle_push() {
  receive_gradients();
  const float* const gradient = mean_of(pushed_views_);
  const bool on_server = config_.ps_update == PsUpdate::server;
  if (on_server) update(gradient);
  send_to_all(shard_of(on_server ? weights_ : gradient_));
}

const float* ServerShard::mean_of(std::span<const float* const> pushes) {
  const ScopedPhase phase(context_.observer, Phase::reduce, *stream_);
  auto* const mean = static_cast<float*>(shard_of(gradient_).data);
  const bool missing = config_.faults.missing_bucket == index_;  // all but the first
  context_.backends[0]->mean(*stream_, pushes.first(missing ? 1 : pushes.size()), mean, count_);
  return mean;
}

void ServerShard::update(const float* gradient) {
  const ScopedPhase phase(context_.observer, Phase::optimizer, *stream_);
  context_.backends[0]->update(*stream_,
                               {.weights = static_cast<float*>(shard_of(weights_).data),
                                .gradients = gradient,
                                .state = optimizer_state_.data(),
                                .count = count_,
                                .grad_scale = config_.faults.gradient_factor(config_.replicas),
                                .options = optimizer_});
  ++served_.updates;
}

// Waits until all workers have sent one command, for as long as they evaluate or save: others
// notice who stands still. Where they are served one by one, it serves their pushes meanwhile.
ServerCommand ServerShard::next_command() {
  const bool announces = context_.control != nullptr;
  clients_.assign(pushed_views_.size(), {.known = served_.updates});
  for (std::size_t w = 0; w < clients_.size(); ++w) await(w, false);
  const auto speaks = [announces](const Client& one) {
    return one.is_awaited && ((announces && one.is_pushing) || one.incoming.is_done());
  };
  std::optional<ScopedPhase> receiving;
  for (std::size_t ready = 0; ready < clients_.size();) {
    if (!receiving && std::ranges::any_of(clients_, &Client::is_pushing)) {
      receiving.emplace(context_.observer, Phase::push, *stream_);
    }
    context_.commands().wait_until([&] {
      if (announces) context_.world->check();  // a failure there keeps the workers from speaking
      return std::ranges::any_of(clients_, speaks);
    });
    for (std::size_t w = 0; w < clients_.size(); ++w) {
      Client& client = clients_[w];
      if (!speaks(client)) continue;
      client.is_awaited = false;
      const std::int64_t step = commands_[w] >> kStepBit;
      const ServerCommand command{commands_[w] - (step << kStepBit)};
      if (std::exchange(client.is_pushing, false)) {
        client.incoming.wait(*stream_);
        receiving.reset();
        client.wants_reply = true;
        config_.backup_workers > 0 ? take_push_of(step, w) : take_push(w);
        continue;
      }
      client.incoming.synchronize();
      if (command == ServerCommand::push && config_.serves_one_by_one() != nullptr) {
        await(w, true);
      } else {
        ++ready;
      }
    }
  }
  for (std::size_t w = 1; w < clients_.size(); ++w) {
    ensure(commands_[w] == commands_[0], "server {}: workers sent different commands", index_);
  }
  return ServerCommand{commands_[0]};
}

// The gradient that follows a command comes into the place of the last reply, which was taken.
void ServerShard::await(std::size_t worker, bool gradient) {
  Client& client = clients_[worker];
  if (gradient) client.reply.wait(*stream_);
  comm::Communicator& from = gradient ? *context_.world : context_.commands();
  client.incoming = from.recv(
      gradient ? shard_of(pushed_, worker) : comm::Elements{&commands_[worker], 1, DataType::int64},
      static_cast<int>(worker), {.start = kServerStart});
  client.is_pushing = gradient;
  client.is_awaited = true;
}

// A worker hears of its push when it is no more than max_staleness steps ahead of the slowest.
void ServerShard::take_push(std::size_t worker) {
  Client& client = clients_[worker];
  ++served_.staleness[served_.updates - client.known];
  if (worker == 0 || config_.faults.missing_bucket != index_) update(pushed_views_[worker]);
  ++client.pushes;
  const std::int64_t fewest = std::ranges::min(clients_, {}, &Client::pushes).pushes;
  for (std::size_t w = 0; w < clients_.size(); ++w) {
    const Client& one = clients_[w];
    if (one.wants_reply && one.pushes - fewest <= config_.max_staleness) reply(w);
  }
}

// The first workers that push in a step make its update. Who comes later skips to the next step.
void ServerShard::take_push_of(std::int64_t step, std::size_t worker) {
  if (step < served_.updates) {
    ++served_.dropped;
    return reply(worker);
  }
  std::vector<const float*> first;
  for (std::size_t w = 0; w < clients_.size(); ++w) {
    if (clients_[w].wants_reply) first.push_back(pushed_views_[w]);
  }
  if (first.size() + static_cast<std::size_t>(config_.backup_workers) < clients_.size()) return;
  update(mean_of(first));
  for (std::size_t w = 0; w < clients_.size(); ++w) {
    if (clients_[w].wants_reply) reply(w);
  }
}

// Sends a copy of the parameters: a server that waited until the worker takes them could wait for
// one that waits for another server.
void ServerShard::reply(std::size_t worker) {
  const ScopedPhase phase(context_.observer, Phase::pull, *stream_);
  Client& client = clients_[worker];
  const comm::Elements copy = shard_of(pushed_, worker);
  context_.devices[0]->copy(*stream_, copy.view(), shard_of(weights_).view());
  client.reply = context_.world->send(copy, static_cast<int>(worker),
                                      {.after = stream_.get(), .start = kServerStart});
  if (config_.backup_workers > 0) {
    client.next_step.synchronize();
    std::int64_t& next = commands_[clients_.size() + worker];
    next = served_.updates;
    client.next_step = context_.commands().send({&next, 1, DataType::int64},
                                                static_cast<int>(worker), {.start = kServerStart});
  }
  client.known = served_.updates;
  client.wants_reply = false;
  await(worker, false);
}

// Each server begins with another worker.
void ServerShard::receive_gradients() {
  const ScopedPhase phase(context_.observer, Phase::push, *stream_);
  const int first = index_ * config_.replicas / config_.servers;
  works_.clear();
  if (!takes_turns_) context_.world->group_start();
  for (int turn = 0; turn < config_.replicas; ++turn) {
    const int worker = (first + turn) % config_.replicas;
    works_.push_back(context_.world->recv(shard_of(pushed_, static_cast<std::size_t>(worker)),
                                          worker, {.start = kServerStart}));
    if (takes_turns_) works_.back().wait(*stream_);
  }
  if (!takes_turns_) context_.world->group_end();
  for (const comm::Work& work : works_) work.wait(*stream_);
}

void ServerShard::send_to_all(const comm::Elements& result) {
  const ScopedPhase phase(context_.observer, Phase::pull, *stream_);
  works_.clear();
  context_.world->group_start();
  for (int w = 0; w < config_.replicas; ++w) {
    works_.push_back(
        context_.world->send(result, w, {.after = stream_.get(), .start = kServerStart}));
  }
  context_.world->group_end();
  for (const comm::Work& work : works_) work.wait(*stream_);
}

void ServerShard::receive_parameters() {
  const ScopedPhase phase(context_.observer, Phase::replicate, *stream_);
  if (config_.ps_update == PsUpdate::worker) return;
  context_.world->recv(shard_of(weights_), 0, {.start = kServerStart}).wait(*stream_);
}

void ServerShard::transfer(Transfer transfer) {
  std::vector<StatePart> parts;
  if (config_.ps_update == PsUpdate::server) {
    add_server_parts(parts, config_, index_, {.bytes = count_ * sizeof(float)},
                     optimizer_state_.data());
  }
  const comm::CallOptions options{.after = stream_.get(), .start = kServerStart};
  for (const StatePart& part : in_order(std::move(parts))) {
    const comm::Elements elements = flat_elements(part.memory);
    if (transfer == Transfer::load) {
      context_.world->recv(elements, 0, options).wait(*stream_);
    } else if (part.kind != StatePart::Kind::counter) {
      context_.world->send(elements, 0, options).wait(*stream_);
    }
  }
}

}  // namespace ddpbench
