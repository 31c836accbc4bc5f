// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of strategies: all that distinguishes one from another outside its own source. Options,
// plans, reports and help read a row and compare no names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/gradient_exchange.h"
#include "parallel/strategy.h"

namespace ddpbench {

// How the trained weights compare with those of one device that computes the same global batches.
enum class Outcome : std::uint8_t {
  baseline,    // the strategy is that one device: others are compared and verified against it
  exact,       // equal but for rounding; verification checks this
  approximate  // different by design: verification has nothing to check
};

struct StrategyTraits {
  std::string_view name;           // as --strategy takes it and a report states it
  std::string_view words;          // what it is, for help
  std::string_view gradient_path;  // how gradients get from the replicas into the weights, for docs
  Outcome outcome = Outcome::exact;
  bool is_listed = true;      // a user may name it
  bool one_process = false;   // its devices are threads of one process
  bool uses_buckets = false;  // --first-bucket-mb and --bucket-cap-mb take effect between devices
  // Its buckets are reduced to ranks and gathered: --all-reduce and --accumulation-sync have no
  // effect.
  bool shards_state = false;
  bool gathers_units = false;     // weights come and go: --unit-mb takes effect
  bool averages_weights = false;  // not gradients: --sync-every and --outer-... take effect
  bool splits_layers = false;     // over the devices: --stages and --micro-batches take effect
  bool groups_ranks = false;      // --devices-per-process takes effect: a rank a device
  bool has_servers = false;       // the options of servers take effect
  bool overlaps = false;          // --overlap takes effect
  bool records_steps = false;  // --cuda-graph takes effect: its steps can be recorded and replayed
  // The ranks that are no servers, of a job of at least one replica and one sample.
  std::vector<RankPlan> (*plan)(const StrategyConfig&) = nullptr;
  // How several ranks exchange gradients; null for one rank, and where `make` makes all.
  MakeExchange* exchange = nullptr;
  // The whole strategy on several devices; null, and on one device: it is replicated
  // (replicated.cpp).
  std::unique_ptr<Strategy> (*make)(const StrategyConfig&) = nullptr;
  bool all_reduces_gradients() const { return uses_buckets && !shards_state && !averages_weights; }
  bool shares_state() const { return !has_servers && !averages_weights; }  // running statistics
  bool is_baseline() const { return outcome == Outcome::baseline; }
};

// What the rows name.
//
// One rank that drives all replicas and is fed the whole global batch.
std::vector<RankPlan> plan_one_rank(const StrategyConfig& config);
// One rank a replica, each fed its own shard.
std::vector<RankPlan> plan_rank_per_replica(const StrategyConfig& config);
// One device for any number of replicas.
std::vector<RankPlan> plan_reference(const StrategyConfig& config);
std::unique_ptr<Strategy> make_data_parallel(const StrategyConfig& config);
std::unique_ptr<Strategy> make_replicated(const StrategyConfig& config, const StrategyTraits& row);

// All rows, in the order in which tables and charts show them.
std::span<const StrategyTraits> all_strategies();
// Throws ConfigError when no row has that name.
const StrategyTraits& strategy_traits(std::string_view name);
// The names that a user may give; with `trait`, only those of rows that have it.
std::vector<std::string> known_strategies(bool StrategyTraits::*trait = &StrategyTraits::is_listed);

// The row's outcome, or `approximate` where an option makes the run so.
Outcome outcome_of(const StrategyConfig& config);

// The ranks of a job of a row's strategy: workers, then servers.
std::vector<RankPlan> plan_ranks(const StrategyConfig& config, const StrategyTraits& row);
// Throws ConfigError for impossible configurations (`single` with several replicas, replicas that
// are no whole number of processes). REQUIRES: at least one replica, sample and pass, and one
// server where the strategy has servers, as the options have it.
StrategyPlan plan_strategy(const StrategyConfig& config);
std::unique_ptr<Strategy> make_strategy(const StrategyConfig& config);

}  // namespace ddpbench
