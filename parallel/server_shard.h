// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ServerShard: one server process of `ps`, owner of one contiguous shard of the parameters.
//
// In every round each worker sends the same command, which says what follows. A server that
// serves its workers one by one takes pushes as they come; other commands wait for all workers'.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/ops/flat_ops.h"
#include "parallel/gradient_exchange.h"
#include "parallel/step_parts.h"
#include "parallel/strategy.h"

namespace ddpbench {

enum class ServerCommand : std::int64_t {
  push = 1,   // every worker sends its gradient shard and then receives the result
  reset = 2,  // worker 0 sends the parameters of step 0; optimizer state to zero
  goodbye = 3,
  assign = 4,     // worker 0 sends parameters; optimizer state stays
  gradients = 5,  // every worker receives the gradients of the last push
  weights = 6,    // every worker receives the parameters
  save = 7,       // worker 0 receives the optimizer's state ...
  load = 8        // ... or sends it
};
// With backup workers, a push says its step above this bit, and the answer which step comes next.
inline constexpr int kStepBit = 8;

// Cuts the flat buffer into `servers` shards of nearly equal size, at 64-byte boundaries. Some are
// empty when there are more servers than 64-byte units. `plan` gives Bucket::end_parameter; it is
// null on servers, which need the byte ranges only.
std::vector<Bucket> plan_shards(std::uint64_t flat_bytes, int servers,
                                const nn::ParameterPlan* plan);

// Lists the optimizer's state of server `server`, which has `shard`; `state` is null elsewhere.
void add_server_parts(std::vector<StatePart>& parts, const StrategyConfig& config, int server,
                      const Bucket& shard, std::byte* state);

class ServerShard {
 public:
  // `index` is this server's number, from 0. Takes part in agree_on_plan and registers its buffers.
  // Collective with the workers' setup.
  ServerShard(const StrategyConfig& config, const StrategyContext& context, int index);
  ServerShard(const ServerShard&) = delete;
  ServerShard& operator=(const ServerShard&) = delete;

  ServedPushes serve();

 private:
  // A worker that is served by itself.
  struct Client {
    bool is_awaited = false;  // `incoming` is
    bool is_pushing = false;  // that is its gradient, else its next command
    comm::Work incoming, reply, next_step;
    std::int64_t pushes = 0;
    std::int64_t known = 0;    // the updates that are in its weights
    bool wants_reply = false;  // it has pushed
  };

  void make_buffers();  // after context.admit has allowed it
  ServerCommand next_command();
  void await(std::size_t worker, bool gradient);
  void take_push(std::size_t worker);
  void take_push_of(std::int64_t step, std::size_t worker);
  void reply(std::size_t worker);
  const float* mean_of(std::span<const float* const> pushes);
  void update(const float* gradient);
  void handle_push();
  void receive_gradients();
  void send_to_all(const comm::Elements& result);
  void receive_parameters();
  void transfer(Transfer transfer);
  comm::Elements shard_of(const Buffer& buffer, std::size_t slot = 0) const;

  const StrategyConfig& config_;
  const StrategyContext& context_;
  int index_;
  ops::OptimizerOptions optimizer_;
  bool takes_turns_ = false;    // the workers push one after the other
  std::size_t count_ = 0;       // elements of the shard
  std::size_t slot_bytes_ = 0;  // bytes of one worker's part of pushed_
  std::unique_ptr<Stream> stream_;
  // In host memory: one a worker; with backups, then the next step of each.
  std::vector<std::int64_t> commands_;
  Buffer pushed_;                     // one gradient shard a worker
  Buffer gradient_;                   // their mean
  Buffer weights_, optimizer_state_;  // update on the server only
  std::vector<comm::Work> works_;
  std::vector<Client> clients_;  // [worker]
  ServedPushes served_;
  std::vector<const float*> pushed_views_;  // [worker], into pushed_
  Registrations registered_;
};

}  // namespace ddpbench
