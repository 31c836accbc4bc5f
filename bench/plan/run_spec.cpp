// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/run_spec.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/math.h"
#include "bench/options/option_source.h"

namespace ddpbench::bench {
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

nlohmann::json dataset_json(const data::DatasetInfo& info) {
  return {{"name", info.name},
          {"source", info.source},
          {"directory", info.directory},
          {"train_samples", info.train_samples},
          {"test_samples", info.test_samples},
          {"channels", info.channels},
          {"height", info.height},
          {"width", info.width},
          {"classes", info.classes}};
}

data::DatasetInfo dataset_from_json(const nlohmann::json& json) {
  data::DatasetInfo info;
  json.at("name").get_to(info.name);
  json.at("source").get_to(info.source);
  json.at("directory").get_to(info.directory);
  json.at("train_samples").get_to(info.train_samples);
  json.at("test_samples").get_to(info.test_samples);
  json.at("channels").get_to(info.channels);
  json.at("height").get_to(info.height);
  json.at("width").get_to(info.width);
  json.at("classes").get_to(info.classes);
  return info;
}

nlohmann::json cell_json(const RunCell& cell) {
  return {{"strategy", cell.strategy},
          {"world_size", cell.world_size},
          {"servers", cell.servers},
          {"repetition", cell.repetition},
          {"batch_size", cell.batch_size},
          {"overlap", cell.overlap},
          {"bucket_cap_mb", cell.bucket_cap_mb},
          {"first_bucket_mb", cell.first_bucket_mb},
          {"ps_update", cell.ps_update},
          {"cuda_graph", cell.cuda_graph}};
}

RunCell cell_from_json(const nlohmann::json& json) {
  return {.strategy = json.at("strategy"),
          .world_size = json.at("world_size"),
          .servers = json.at("servers"),
          .repetition = json.at("repetition"),
          .batch_size = json.at("batch_size"),
          .overlap = json.at("overlap"),
          .bucket_cap_mb = json.at("bucket_cap_mb"),
          .first_bucket_mb = json.at("first_bucket_mb"),
          .ps_update = json.at("ps_update"),
          .cuda_graph = json.at("cuda_graph")};
}

}  // namespace

bool shares_gpus(const RunSpec& spec) {
  return std::set<int>(spec.gpus.begin(), spec.gpus.end()).size() < spec.gpus.size();
}

data::ShardedSampler make_sampler(const RunSpec& spec) {
  return data::ShardedSampler({.samples = spec.dataset.train_samples,
                               .global_batch = spec.global_batch(),
                               .shards = spec.cell.world_size,
                               .seed = spec.options.seed,
                               .last_batch = spec.options.last_batch == "drop"
                                                 ? data::LastBatch::drop
                                                 : data::LastBatch::pad});
}

StrategyConfig strategy_config(const RunSpec& spec) {
  StrategyConfig config;
  config.strategy = spec.cell.strategy;
  config.replicas = spec.cell.world_size;
  config.servers = spec.cell.servers;
  config.per_device_batch = spec.per_device_batch;
  config.optimizer = {
      .lr = spec.lr, .momentum = spec.options.momentum, .weight_decay = spec.options.weight_decay};
  config.overlap = spec.cell.overlap;
  config.first_bucket_bytes = mebibytes(spec.cell.first_bucket_mb);
  config.bucket_cap_bytes = mebibytes(spec.cell.bucket_cap_mb);
  config.ps_update = spec.cell.ps_update == "worker" ? PsUpdate::worker : PsUpdate::server;
  if (!spec.is_reference()) config.faults = planted_faults(spec.options.injections);
  return config;
}

bool can_record_steps(const RunSpec& spec) {
  const std::string& strategy = spec.cell.strategy;
  return (strategy == "single" || strategy == "ddp") && spec.options.injections.empty() &&
         spec.options.trace_path.empty();
}

bool records_steps(const RunSpec& spec) {
  return spec.options.device == "cuda" && !spec.is_reference() && spec.cell.cuda_graph != "off" &&
         can_record_steps(spec);
}

nlohmann::json to_json(const RunSpec& spec) {
  return {{"options", to_json(spec.options)},
          {"cell", cell_json(spec.cell)},
          {"per_device_batch", spec.per_device_batch},
          {"lr", spec.lr},
          {"backend", spec.backend},
          {"model_path", spec.model_path},
          {"dataset", dataset_json(spec.dataset)},
          {"verification_tolerance", spec.verification_tolerance},
          {"steps_per_epoch", spec.steps_per_epoch},
          {"cores", spec.cores},
          {"gpus", spec.gpus},
          {"oversubscribed", spec.oversubscribed},
          {"channel_fd", spec.channel_fd},
          {"dataset_fd", spec.dataset_fd},
          {"reference_fd", spec.reference_fd}};
}

RunSpec run_spec_from_json(const nlohmann::json& json) {
  RunSpec spec;
  spec.options = options_from_json(json.at("options"));
  spec.cell = cell_from_json(json.at("cell"));
  json.at("per_device_batch").get_to(spec.per_device_batch);
  json.at("lr").get_to(spec.lr);
  json.at("backend").get_to(spec.backend);
  json.at("model_path").get_to(spec.model_path);
  spec.dataset = dataset_from_json(json.at("dataset"));
  json.at("verification_tolerance").get_to(spec.verification_tolerance);
  json.at("steps_per_epoch").get_to(spec.steps_per_epoch);
  json.at("cores").get_to(spec.cores);
  json.at("gpus").get_to(spec.gpus);
  json.at("oversubscribed").get_to(spec.oversubscribed);
  json.at("channel_fd").get_to(spec.channel_fd);
  json.at("dataset_fd").get_to(spec.dataset_fd);
  json.at("reference_fd").get_to(spec.reference_fd);
  return spec;
}

double wait_limit_s(double timeout_s) {
  constexpr double kNever = 1e6;  // 11 days, which every clock and poll can hold
  return timeout_s > 0 ? timeout_s : kNever;
}

double wait_limit_s(const Options& options) { return wait_limit_s(options.timeout_s); }

std::int64_t total_steps(const RunSpec& spec) {
  if (spec.is_reference()) return spec.options.verify_steps;
  return spec.verify_steps() + spec.options.warmup_steps +
         spec.options.epochs * spec.steps_per_epoch;
}

}  // namespace ddpbench::bench
