// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/training_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/math.h"
#include "base/text.h"
#include "bench/host/host_devices.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "parallel/comm_backends.h"
#include "parallel/strategies.h"
#include "reports/data/report_view.h"

namespace ddpbench::data {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DatasetInfo, name, source, directory, train_samples,
                                   test_samples, channels, height, width, classes, label_height,
                                   label_width, note, own_sizes)

}  // namespace ddpbench::data

namespace ddpbench::bench {

// Writes no lists: the cell has their values for this run.
static void to_json(nlohmann::json& json, const RunOptions& options) {
  Options all;
  static_cast<RunOptions&>(all) = options;
  json = to_json(all);
  for (const SweepAxis& axis : sweep_axes()) json.erase(with_underscores(axis.option));
}
static void from_json(const nlohmann::json& json, RunOptions& options) {
  options = options_from_json(json);
}

// The repetition and the entry stay with the supervisor.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunCell, strategy, world_size, servers, batch_size,
                                   global_batch_size, devices_per_process, loader_workers, overlap,
                                   bucket_cap_mb, first_bucket_mb, unit_mb, accumulation_steps,
                                   accumulation_sync, ps_update, ps_mode, max_staleness,
                                   backup_workers, sync_every, outer_lr, outer_momentum, stages,
                                   micro_batches, schedule, all_reduce, comm_hook, cuda_graph)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Network, path, name, hash, has_state, flops_per_sample,
                                   ignored_label)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainingPosition, steps, epoch, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainingJob, options, cell, per_device_batch, lr, device,
                                   backend, threads_per_device, all_reduce, network, dataset,
                                   verification_tolerance, steps_per_epoch, resumed,
                                   rehearsed_steps, cores, gpus, oversubscribed, dataset_fd,
                                   reference_fd)

namespace {

std::size_t mebibytes(double value) {
  return static_cast<std::size_t>(value * static_cast<double>(kMiB));
}

PlantedFaults planted_faults(const std::vector<Injection>& injections) {
  PlantedFaults faults;
  for (const Injection& injection : injections) {
    if (injection.kind == "missing_bucket") faults.missing_bucket = injection.bucket;
    if (injection.kind == "sum") faults.sum_for_average = true;
    if (injection.kind == "stale") {
      faults.stale_replica = injection.rank;
      faults.stale_step = injection.step;
    }
  }
  return faults;
}

// Of these and the functions below: runs with the usual choices keep the names that they had.
void describe_optimizer(const ops::OptimizerOptions& optimizer, report::Run& run) {
  run.optimizer_name = ops::to_string(optimizer.kind);
  run.optimizer = {{"lr", optimizer.lr}, {"weight_decay", optimizer.weight_decay}};
  auto& numbers = run.optimizer;
  if (optimizer.is_adaptive()) {
    numbers.insert({{"beta1", optimizer.beta1}, {"beta2", optimizer.beta2}});
    numbers["epsilon"] = optimizer.epsilon;
  } else {
    numbers["momentum"] = optimizer.momentum;
    if (optimizer.nesterov) run.optimizer_choices["nesterov"] = "on";
  }
  const ops::LrSchedule& schedule = optimizer.schedule;
  if (schedule.kind != ops::ScheduleKind::constant) {
    run.optimizer_choices["lr_schedule"] = ops::to_string(schedule.kind);
  }
  if (schedule.kind == ops::ScheduleKind::step) {
    numbers.insert({{"lr_step_size", schedule.step_size}, {"lr_gamma", schedule.gamma}});
  } else if (schedule.kind == ops::ScheduleKind::cosine) {
    numbers.insert({{"lr_cosine_steps", schedule.cosine_steps}, {"lr_min", schedule.least}});
  }
  if (schedule.warmup_steps == 0) return;
  numbers.insert(
      {{"lr_warmup_steps", schedule.warmup_steps}, {"lr_warmup_factor", schedule.warmup_factor}});
}

// A fault that verification must catch; the baseline never has one.
bool is_wrong_result(const Injection& injection) {
  return injection.kind == "sum" || injection.kind == "missing_bucket" ||
         injection.kind == "stale" || injection.kind == "seed";
}

std::map<std::string, std::string> strategy_options(const TrainingJob& job) {
  std::map<std::string, std::string> described;
  const auto describe = [&](bool told, const char* key, const auto& value) {
    if (told) described[key] = fmt::format("{}", value);
  };
  const auto on_off = [](bool value) { return value ? "on" : "off"; };
  const RunOptions& options = job.options;
  const RunCell& cell = job.cell;
  const StrategyTraits& traits = strategy_traits(cell.strategy);
  const bool cuda = options.device == "cuda", syncs = job.synchronises_batch_norm();
  const bool buckets =
      traits.uses_buckets && (!traits.splits_layers || stages_of(cell) < cell.world_size);
  describe(options.residency == "host" && cell.loader_workers != RunCell{}.loader_workers,
           "loader_workers", cell.loader_workers);
  describe(options.loader_cost_us > 0, "loader_cost_us", options.loader_cost_us);
  describe(options.emulate_gil_us > 0, "emulated_gil_us", options.emulate_gil_us);
  describe(!options.emulate_link.empty(), "emulated_link", options.emulate_link);
  describe(traits.overlaps && (buckets || gathers_units(cell) || traits.has_servers), "overlap",
           on_off(cell.overlap));
  describe(buckets, "first_bucket_mb", cell.first_bucket_mb);
  describe(buckets, "bucket_cap_mb", cell.bucket_cap_mb);
  describe(cell.unit_mb > 0, "unit_mb", cell.unit_mb);
  describe(
      (buckets || traits.gathers_units) && traits.shares_state() && job.network.has_state && !syncs,
      "broadcast_buffers", on_off(options.broadcast_buffers));
  describe(syncs && cell.world_size > 1, "sync_batch_norm", "on");
  describe(cell.devices_per_process > 1, "devices_per_process", cell.devices_per_process);
  describe(!job.all_reduce.empty(), "all_reduce", job.all_reduce);
  const CommBackend* const backend = find_comm_backend(job.backend);
  describe(traits.shards_state && backend != nullptr && backend->composes_reduce_scatter,
           "reduce_scatter", comm::to_string(comm::OperationKind::all_reduce));
  describe(traits.all_reduces_gradients() && cell.accumulation_steps > 1, "accumulation_sync",
           cell.accumulation_sync);
  const bool averages = traits.averages_weights && cell.world_size > 1;
  const bool outer = averages && (cell.outer_lr != 1 || cell.outer_momentum != 0);
  describe(averages, "sync_every", cell.sync_every);
  describe(outer, "outer_lr", cell.outer_lr);
  describe(outer, "outer_momentum", cell.outer_momentum);
  describe(cell.comm_hook != RunCell{}.comm_hook, "comm_hook", cell.comm_hook);
  describe(traits.splits_layers, "stages", stages_of(cell));
  describe(traits.splits_layers, "micro_batches", cell.micro_batches);
  describe(traits.splits_layers, "schedule", cell.schedule);
  describe(!options.cut.empty(), "cut", options.cut);
  describe(traits.has_servers, "ps_update", cell.ps_update);
  const bool async = traits.has_servers && cell.ps_mode == "async";
  describe(async, "ps_mode", cell.ps_mode);
  describe(async, "max_staleness", cell.max_staleness);
  describe(cell.backup_workers > 0, "backup_workers", cell.backup_workers);
  describe(traits.has_servers && cuda, "server_device", options.server_device);
  describe(cuda && traits.records_steps, "cuda_graph", on_off(records_steps(job)));
  return described;
}

// As a program that never calls set_epoch of DistributedSampler.
bool forgets_epochs(const TrainingJob& job) {
  return plan_strategy(strategy_config(job)).ranks.size() > 1 &&
         std::ranges::count(job.options.injections, "epoch", &Injection::kind) > 0;
}

// The planted faults that concern the run.
std::string injected_words(const TrainingJob& job) {
  std::string words;
  for (const Injection& injection : job.options.injections)
    if (strikes(injection, job)) words += (words.empty() ? "" : " ") + injection.text;
  return words;
}

}  // namespace

bool strikes(const Injection& injection, const TrainingJob& job) {
  const std::size_t ranks = plan_strategy(strategy_config(job)).ranks.size();
  const int workers = static_cast<int>(ranks) - job.cell.servers;
  const std::int64_t warmup = round_up(warmup_limit(job.options), cycle_steps(job));
  // stale and slow name a replica, other kinds a rank.
  const bool of_replica = injection.kind == "stale" || injection.kind == "slow";
  if (injection.rank >= (of_replica ? job.cell.world_size : workers)) return false;
  if (injection.step >= job.options.verify_steps + warmup + timed_steps(job)) return false;
  if (strategy_traits(job.cell.strategy).is_baseline() && is_wrong_result(injection)) return false;
  return (injection.kind != "seed" && injection.kind != "epoch") || ranks > 1;
}

Network network_of(const nn::ModelSpec& model, const std::string& path) {
  return {path,
          model.name,
          fmt::format("{:016x}", nn::content_hash(model)),
          model.has_state(),
          nn::cost_of(model).step_flops(),
          model.loss.ignore_index};
}

data::ShardedSampler make_sampler(const TrainingJob& job) {
  const StrategyConfig config = strategy_config(job);
  return data::ShardedSampler({.samples = job.dataset.train_samples,
                               .global_batch = job.global_batch(),
                               .shards = config.replicas,
                               .passes = config.accumulation_steps,
                               .seed = job.options.seed,
                               .last_batch = job.options.last_batch == "drop"
                                                 ? data::LastBatch::drop
                                                 : data::LastBatch::pad,
                               .reshuffles = !forgets_epochs(job)});
}

data::Normalization normalization_of(const TrainingJob& job) {
  return {job.options.dataset_mean.values, job.options.dataset_std.values};
}

ops::LrSchedule schedule_of(const TrainingJob& job) {
  const RunOptions& options = job.options;
  const std::int64_t steps = options.epochs * job.steps_per_epoch - options.lr_warmup_steps;
  return {.kind = ops::schedule_kind(options.lr_schedule),
          .step_size = options.lr_step_size.value_or(1),
          .gamma = options.lr_gamma,
          .cosine_steps = options.lr_cosine_steps.value_or(std::max<std::int64_t>(1, steps)),
          .least = options.lr_min,
          .warmup_steps = options.lr_warmup_steps,
          .warmup_factor = options.lr_warmup_factor};
}

ops::OptimizerOptions optimizer_of(const TrainingJob& job) {
  const RunOptions& options = job.options;
  return {.kind = ops::optimizer_kind(options.optimizer),
          .lr = job.lr,
          .momentum = options.momentum,
          .nesterov = options.nesterov,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .schedule = schedule_of(job)};
}

// Micro-batches are passes of a replica, which has the samples of all its devices.
static void split_layers(const TrainingJob& job, StrategyConfig& config) {
  config.stages = stages_of(job.cell);
  config.replicas = job.cell.world_size / config.stages;
  config.per_device_batch = job.per_device_batch * config.stages / job.cell.micro_batches;
  config.accumulation_steps *= job.cell.micro_batches;
  config.one_forward_one_backward = job.cell.schedule == "1f1b";
  if (!job.options.cut.empty()) config.cuts = split(job.options.cut, ',');
}

StrategyConfig strategy_config(const TrainingJob& job) {
  StrategyConfig config;
  config.strategy = job.cell.strategy;
  config.replicas = job.cell.world_size;
  config.servers = job.cell.servers;
  config.devices_per_process = job.cell.devices_per_process;
  config.per_device_batch = job.per_device_batch;
  config.accumulation_steps = job.cell.accumulation_steps;
  const StrategyTraits& traits = strategy_traits(job.cell.strategy);
  if (traits.splits_layers) split_layers(job, config);
  config.sync_every_pass = traits.all_reduces_gradients() && job.cell.accumulation_sync == "every";
  config.seed = job.options.seed;
  config.optimizer = optimizer_of(job);
  config.scales_loss = job.options.precision == "fp16";
  config.overlap = job.cell.overlap;
  config.sync_batch_norm = job.synchronises_batch_norm();
  config.broadcast_buffers =
      job.options.broadcast_buffers && job.network.has_state && !config.sync_batch_norm;
  config.first_bucket_bytes = mebibytes(job.cell.first_bucket_mb);
  config.bucket_cap_bytes = mebibytes(job.cell.bucket_cap_mb);
  if (job.cell.unit_mb > 0)
    config.unit_bytes = std::max<std::size_t>(1, mebibytes(job.cell.unit_mb));
  config.sync_every = job.cell.sync_every;
  config.outer_lr = job.cell.outer_lr;
  config.outer_momentum = job.cell.outer_momentum;
  config.ps_update = job.cell.ps_update == "worker" ? PsUpdate::worker : PsUpdate::server;
  const bool lags = job.cell.ps_mode == "async" && job.cell.world_size > 1;  // behind others
  if (lags) config.max_staleness = job.cell.max_staleness;
  config.backup_workers = job.cell.backup_workers;
  if (!job.is_reference()) {
    config.comm_hook = job.cell.comm_hook;
    config.is_verified = job.options.verify_steps > 0;
    config.is_saved = !job.options.save_model.empty() || !job.options.checkpoint.empty();
    config.faults = planted_faults(job.options.injections);
  }
  return config;
}

std::string run_name(const TrainingJob& job) {
  return report::name_of(job.cell.strategy, job.cell.world_size, job.cell.servers);
}

bool is_staged(const TrainingJob& job) {
  const CommBackend* const backend = find_comm_backend(job.backend);
  return backend != nullptr && is_staged(*backend, device_kind(job.options.device));
}

bool can_record_steps(const TrainingJob& job) {
  // A graph may run branches that depend on nothing of each other one behind the other, in an order
  // that differs from rank to rank. Statistics and buckets, which both wait for peers, would then
  // wait for each other.
  const bool waits_in_passes = job.synchronises_batch_norm() && job.cell.world_size > 1;
  return strategy_traits(job.cell.strategy).records_steps && !is_staged(job) && !waits_in_passes &&
         job.cell.accumulation_steps == 1 && job.options.injections.empty() &&
         job.options.trace_path.empty() && job.options.emulate_gil_us == 0;
}

bool records_steps(const TrainingJob& job) {
  return job.options.device == "cuda" && !job.is_reference() && job.cell.cuda_graph != "off" &&
         can_record_steps(job);
}

int cycle_steps(const TrainingJob& job) {
  const bool averages = strategy_traits(job.cell.strategy).averages_weights;
  return averages && job.cell.world_size > 1 ? job.cell.sync_every : 1;
}

bool is_approximate(const TrainingJob& job) {
  return outcome_of(strategy_config(job)) == Outcome::approximate;
}

nlohmann::json dataset_json(const data::DatasetInfo& dataset) { return dataset; }
data::DatasetInfo dataset_from_json(const nlohmann::json& json) {
  return json.get<data::DatasetInfo>();
}
nlohmann::json to_json(const TrainingJob& job) { return job; }
TrainingJob training_job_from_json(const nlohmann::json& json) { return json.get<TrainingJob>(); }

double wait_limit_s(double timeout_s) {
  constexpr double kNever = 1e6;  // 11 days, which each clock and poll can hold
  return timeout_s > 0 ? timeout_s : kNever;
}

std::int64_t timed_steps(const TrainingJob& job) {
  if (job.options.epochs == 0) return 0;
  return (job.options.epochs - job.resumed.epoch) * job.steps_per_epoch - job.resumed.step;
}

std::int64_t total_steps(const TrainingJob& job) {
  if (job.is_reference()) return job.options.verify_steps;
  return job.verify_steps() + job.options.warmup_steps + timed_steps(job);
}

report::Run planned_run(const TrainingJob& job) {
  report::Run run;
  run.strategy = job.cell.strategy;
  run.world_size = job.cell.world_size;
  run.servers = job.cell.servers;
  run.repetition = job.cell.repetition;
  run.device = job.options.device;
  run.threads_per_device = job.options.threads_per_device;
  run.backend = job.backend;
  run.precision = job.options.precision;
  run.model = job.network.name;
  run.model_hash = job.network.hash;
  if (job.network.flops_per_sample > 0) run.flops_per_sample = job.network.flops_per_sample;
  describe_optimizer(optimizer_of(job), run);
  run.per_device_batch_size = job.per_device_batch;
  run.global_batch_size = job.global_batch();
  run.accumulation_steps = job.cell.accumulation_steps;
  run.scaling_mode = job.cell.is_strong() ? "strong" : "weak";
  run.oversubscribed = job.oversubscribed;
  run.dataset_name = job.dataset.name;
  run.dataset_source = job.dataset.source;
  run.train_samples = job.dataset.train_samples;
  run.test_samples = job.dataset.test_samples;
  run.dataset_note = job.dataset.note;
  run.augment = job.options.augment;
  run.label = job.options.label;
  if (const auto& wanted = job.options.wanted_accuracy()) {
    run.until_accuracy = report::AccuracyTarget{.target = wanted->value / 100,
                                                .train_s = {},
                                                .metric = job.options.until_miou ? "miou" : ""};
  }
  if (!job.options.resume_training.empty()) {
    run.resumed = report::ResumedFrom{job.options.resume_training, job.resumed.steps,
                                      job.resumed.epoch, job.resumed.step};
  }
  run.strategy_options = strategy_options(job);
  run.injected = injected_words(job);
  return run;
}

}  // namespace ddpbench::bench
