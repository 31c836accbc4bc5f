// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/strategies.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"
#include "parallel/comm_hook.h"
#include "parallel/pipeline_stage.h"
#include "parallel/replica.h"
#include "parallel/sharded.h"

namespace ddpbench {
namespace {

// To add a strategy, add a row (docs/adding-a-strategy.md).
constexpr StrategyTraits kStrategies[] = {
    {.name = "single",
     .words = "one device",
     .gradient_path = "stay on the device",
     .outcome = Outcome::baseline,
     .one_process = true,
     .records_steps = true,
     .plan = plan_reference},
    {.name = "dp",
     .words = "one process, a thread per device",
     .gradient_path = "are reduced to device 0, which updates and broadcasts the weights",
     .one_process = true,
     .plan = plan_one_rank,
     .make = make_data_parallel},
    {.name = "ddp",
     .words = "a process per device (or per several), all-reduce",
     .gradient_path = "are averaged on all devices, bucket by bucket, while backward runs",
     .uses_buckets = true,
     .groups_ranks = true,
     .overlaps = true,
     .records_steps = true,
     .plan = plan_rank_per_replica,
     .exchange = make_all_reduce},
    {.name = "ps",
     .words = "parameter server",
     .gradient_path = "are pushed to servers, shard by shard, and the result is pulled",
     .has_servers = true,
     .overlaps = true,
     .plan = plan_rank_per_replica,
     .exchange = make_push_and_pull},
    {.name = "zero1",
     .words = "ddp with the optimizer's state in shards, one a rank",
     .gradient_path = "are averaged where they are updated, and the weights gathered",
     .uses_buckets = true,
     .shards_state = true,
     .groups_ranks = true,
     .overlaps = true,
     .records_steps = true,
     .plan = plan_rank_per_replica,
     .exchange = make_exchange<Sharded>},
    {.name = "zero2",
     .words = "zero1 with the gradients in shards, too",
     .gradient_path = "are averaged where they are updated, and kept nowhere else",
     .uses_buckets = true,
     .shards_state = true,
     .groups_ranks = true,
     .overlaps = true,
     .records_steps = true,
     .plan = plan_rank_per_replica,
     .exchange = make_exchange<ShardedGradients>},
    {.name = "zero3",
     .words = "zero2 with the weights in shards, too (FSDP)",
     .gradient_path = "are averaged where they are updated; weights are gathered unit by unit",
     .shards_state = true,
     .gathers_units = true,
     .groups_ranks = true,
     .overlaps = true,
     .plan = plan_rank_per_replica,
     .exchange = make_sharded_units},
    {.name = "localsgd",
     .words = "replicas that train by themselves and average weights now and then",
     .gradient_path = "stay where they are; the weights are averaged every H-th step",
     .outcome = Outcome::approximate,
     .uses_buckets = true,
     .averages_weights = true,
     .groups_ranks = true,
     .plan = plan_rank_per_replica,
     .exchange = make_local_sgd},
    {.name = "pipeline",
     .words = "layers split over devices, micro-batches one behind the other",
     .gradient_path = "stay with their layers; replicas of these average them as ddp does",
     .uses_buckets = true,
     .splits_layers = true,
     .overlaps = true,
     .plan = plan_stages,
     .exchange = make_all_reduce},
    {.name = "reference",
     .words = "one device that computes the batches of all replicas",
     .gradient_path = "are accumulated on the device",
     .is_listed = false,
     .one_process = true,
     .plan = plan_reference}};

}  // namespace

std::vector<RankPlan> plan_one_rank(const StrategyConfig& config) {
  const std::vector<int> all = mapped(std::views::iota(0, config.replicas), std::identity());
  return {{.replicas = all, .shards = all, .batch = config.per_device_batch * config.replicas}};
}

std::vector<RankPlan> plan_rank_per_replica(const StrategyConfig& config) {
  return mapped(std::views::iota(0, config.replicas), [&config](int r) -> RankPlan {
    return {.replicas = {r}, .shards = {r}, .batch = config.per_device_batch};
  });
}

std::vector<RankPlan> plan_reference(const StrategyConfig& config) {
  std::vector<RankPlan> ranks = plan_one_rank(config);
  ranks[0].replicas = {0};
  return ranks;
}

std::vector<RankPlan> plan_ranks(const StrategyConfig& config, const StrategyTraits& row) {
  std::vector<RankPlan> ranks = row.plan(config);
  if (!row.has_servers) return ranks;
  for (int s = 0; s < config.servers; ++s) ranks.push_back({.role = Role::server});
  return ranks;
}

std::span<const StrategyTraits> all_strategies() { return kStrategies; }

const StrategyTraits& strategy_traits(std::string_view name) {
  const auto* const row = std::ranges::find(kStrategies, name, &StrategyTraits::name);
  if (row == std::end(kStrategies)) throw ConfigError(fmt::format("unknown strategy '{}'", name));
  return *row;
}

std::vector<std::string> known_strategies(bool StrategyTraits::*trait) {
  std::vector<std::string> names;
  for (const StrategyTraits& row : kStrategies) {
    if (row.is_listed && row.*trait) names.emplace_back(row.name);
  }
  return names;
}

Outcome outcome_of(const StrategyConfig& config) {
  if (config.comm_hook != StrategyConfig{}.comm_hook || config.serves_one_by_one())
    return Outcome::approximate;
  const StrategyTraits& row = strategy_traits(config.strategy);
  // The mean of weights after one step is an update by the mean of gradients where it is linear.
  const bool is_ddp = config.sync_every == 1 && config.outer_lr == 1 &&
                      config.outer_momentum == 0 && !config.optimizer.is_adaptive();
  return row.averages_weights && (config.replicas == 1 || is_ddp) ? Outcome::exact : row.outcome;
}

// Why a configuration cannot train: the first of these that holds. Empty: it can.
static std::string clash_of(const StrategyConfig& c, const StrategyTraits& row) {
  const std::string late = c.serves_one_by_one() != nullptr ? c.serves_one_by_one() : "";
  const std::optional<ops::Encoding> hook = encoding_of(c.comm_hook);
  const bool has_hook = c.comm_hook != StrategyConfig{}.comm_hook, is_split = c.stages > 1;
  const bool keeps_error = has_hook && !(hook && hook->is_cast());
  const bool on_server = c.ps_update == PsUpdate::server;
  const int together = row.groups_ranks ? c.devices_per_process : 1;
  const std::pair<bool, std::string> clashes[] = {
      {row.is_baseline() && c.replicas != 1,
       fmt::format("strategy {} uses 1 device, but {} were requested", row.name, c.replicas)},
      {!late.empty() && !on_server,
       late + " --ps-update=worker: a late worker can pull only parameters; use "
              "--ps-update=server"},
      {!late.empty() && c.sync_batch_norm,
       late + " --sync-batch-norm: workers would wait for each other's statistics; leave one out"},
      {row.has_servers && c.scales_loss && on_server,
       "--precision=fp16 --ps-update=server: a server that sees one shard cannot know whether the "
       "others skip an update; use --ps-update=worker"},
      {c.scales_loss && keeps_error,
       fmt::format("--precision=fp16 --comm-hook={}: what it keeps of a step that is skipped would "
                   "come back; use none, bf16 or fp16",
                   c.comm_hook)},
      {is_split && c.sync_batch_norm,
       fmt::format("{} --sync-batch-norm=on: micro-batches of a layer are at no time together on "
                   "all devices; leave it out",
                   row.name)},
      {is_split && c.scales_loss,
       fmt::format("{} --precision=fp16: a stage that sees its own gradients alone cannot know "
                   "whether the others skip an update; use bf16",
                   row.name)},
      {is_split && has_hook,
       fmt::format("{} --comm-hook={}: it is for ddp", row.name, c.comm_hook)},
      {c.backup_workers >= c.replicas,
       fmt::format("--gpus={} --backup-workers={}: no gradient is left to take", c.replicas,
                   c.backup_workers)},
      {together < 1 || c.replicas % together != 0,
       fmt::format(
           "{}: {} devices are no whole number of processes with {} each (--devices-per-process)",
           row.name, c.replicas, together)}};
  const auto* const found = std::ranges::find_if(clashes, &std::pair<bool, std::string>::first);
  return found == std::end(clashes) ? "" : found->second;
}

StrategyPlan plan_strategy(const StrategyConfig& config) {
  const StrategyTraits& row = strategy_traits(config.strategy);
  if (const std::string why = clash_of(config, row); !why.empty()) throw ConfigError(why);
  return {.ranks = plan_ranks(config, row),
          .ranks_per_process = row.groups_ranks ? config.devices_per_process : 1,
          .global_batch = config.per_device_batch * config.replicas * config.accumulation_steps};
}

void Strategy::evaluate(std::size_t i, const StepInput& input, std::int64_t samples) {
  replicas()[i]->evaluate(input.images, input.labels, samples);
}

BufferView Strategy::fetch_gradients(std::size_t i) {
  return updated_replicas()[i]->graph().gradients().view();
}

std::unique_ptr<Strategy> make_strategy(const StrategyConfig& config) {
  const StrategyTraits& row = strategy_traits(config.strategy);
  const bool is_own = row.make != nullptr && config.replicas > 1;
  return is_own ? row.make(config) : make_replicated(config, row);
}

}  // namespace ddpbench
