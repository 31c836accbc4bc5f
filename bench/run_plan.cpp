// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run_plan.h"

#include <algorithm>

#include "kernels/runtime/error.h"
#include "reports/metrics.h"

namespace ddpbench::bench {
namespace {

constexpr double kUnitRoundoffFp32 = 0x1p-24;

std::int64_t per_device_batch(const Options& options, const RunCell& cell) {
  if (options.global_batch_sizes.empty()) return cell.batch_size;
  if (cell.batch_size % cell.world_size != 0) {
    throw ConfigError(fmt::format("--global-batch-size={} is not a multiple of {} devices",
                                  cell.batch_size, cell.world_size));
  }
  return cell.batch_size / cell.world_size;
}

std::int64_t steps_per_epoch(const RunSpec& spec) {
  const std::int64_t all = make_sampler(spec).steps_per_epoch();
  return spec.options.steps ? std::min(all, *spec.options.steps) : all;
}

bool is_multi_process(const RunCell& cell) {
  return (cell.strategy == "ddp" && cell.world_size > 1) || cell.strategy == "ps";
}

}  // namespace

RunSpec make_run_spec(const Options& options, const RunCell& cell, const data::DatasetInfo& dataset,
                      const std::string& model_path, const CpuTopology& topology) {
  RunSpec spec;
  spec.options = options_of_cell(options, cell);
  spec.cell = cell;
  spec.title = run_title(cell, options);
  spec.per_device_batch = per_device_batch(options, cell);
  // Goyal et al. 2017: the learning rate grows with the global batch.
  spec.lr = options.lr_scaling == "linear" ? options.lr * cell.world_size : options.lr;
  spec.backend =
      is_multi_process(cell) || (cell.strategy == "dp" && cell.world_size > 1) ? "ring" : "none";
  spec.model_path = model_path;
  spec.dataset = dataset;
  spec.steps_per_epoch = steps_per_epoch(spec);
  if (spec.steps_per_epoch < 1) {
    throw ConfigError(fmt::format(
        "a global batch of {} is larger than the {} training samples of {}, and --last-batch=drop "
        "drops it; use a smaller batch or --last-batch=pad",
        spec.global_batch(), dataset.train_samples, dataset.name));
  }
  const CpuPlacement placement =
      place_cpu_devices(topology, cell.world_size + cell.servers, options.threads_per_device);
  spec.cores = placement.device_cores;
  spec.oversubscribed = placement.oversubscribed;
  return spec;
}

RunSpec reference_spec(const RunSpec& spec) {
  RunSpec reference = spec;
  reference.cell.strategy = "reference";
  reference.cell.servers = 0;
  reference.options.injections.clear();
  reference.backend = "none";
  reference.title =
      fmt::format("reference of {} slices of {}", spec.cell.world_size, spec.per_device_batch);
  return reference;
}

ReferenceKey reference_key(const RunSpec& spec) {
  return {spec.cell.world_size, spec.per_device_batch, spec.lr};
}

double tolerance_for(const RunSpec& spec, const nn::ModelSpec& model) {
  if (spec.options.verify_steps == 0) return 0;
  std::int64_t positions = 1;
  for (const nn::LayerSpec& layer : model.layers) {
    if (layer.type == nn::LayerType::conv2d) {
      positions = std::max(positions, layer.output_shape.at(1) * layer.output_shape.at(2));
    }
  }
  const double terms = static_cast<double>(positions) * static_cast<double>(spec.global_batch());
  return report::verification_tolerance(kUnitRoundoffFp32, terms, spec.options.verify_steps);
}

DeviceChoice choose_device(const Options& options) {
  if (options.device == "cuda") {
    throw UnavailableError("--device=cuda: this version has no CUDA module; use --device=cpu");
  }
  if (options.backend != "auto" && options.backend != "ring") {
    throw UnavailableError(
        fmt::format("--backend={}: CPU devices have the backend 'ring' only", options.backend));
  }
  if (options.precision != "fp32") {
    throw UnavailableError(
        fmt::format("--precision={}: this build computes in fp32 only", options.precision));
  }
  if (options.device == "auto") {
    return {"cpu", "device: cpu (--device=auto: this build has no CUDA module)"};
  }
  return {"cpu", ""};
}

}  // namespace ddpbench::bench
