// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/run_plan.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "bench/plan/device_plan.h"
#include "reports/data/run_names.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

// Half the distance from 1 to the next number, of what products are rounded to.
double unit_roundoff(const std::string& precision) {
  if (precision == "tf32") return 0x1p-11;
  return precision == "bf16" ? 0x1p-8 : 0x1p-24;
}

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

// What moves data between the devices of a run. NCCL knows nothing of CPU devices.
std::string resolve_backend(const RunSpec& spec) {
  const bool alone =
      !is_multi_process(spec.cell) && (spec.cell.strategy != "dp" || spec.cell.world_size == 1);
  if (alone) return "none";
  if (spec.has_cpu_servers()) {
    if (spec.options.backend != "nccl") return "ring";
    throw ConfigError(
        "--backend=nccl --server-device=cpu: NCCL connects GPUs only; use --backend=ring, or "
        "--server-device=cuda");
  }
  return choose_backend(spec.options.backend, spec.options.device, spec.oversubscribed);
}

// Cores for all devices, or for those that are not on GPUs.
void place_on_cores(RunSpec& spec, const CpuTopology& cpu) {
  const std::size_t without = spec.has_cpu_servers() ? spec.cell.world_size : 0;
  const int devices = spec.cell.world_size + spec.cell.servers - static_cast<int>(without);
  CpuPlacement placement = place_cpu_devices(cpu, devices, spec.options.threads_per_device);
  spec.cores.resize(without);
  std::ranges::move(placement.device_cores, std::back_inserter(spec.cores));
  spec.oversubscribed = placement.oversubscribed;
}

// Replicas, then servers unless they are on CPU devices, each on the next GPU.
void place_on_gpus(RunSpec& spec, const CudaProbe& cuda, std::string_view advice) {
  refuse_missing_gpus(cuda, "--gpus", spec.cell.world_size, spec.options.oversubscribe, advice);
  const int devices = spec.cell.world_size + (spec.has_cpu_servers() ? 0 : spec.cell.servers);
  spec.gpus = next_gpus(cuda, devices);
  // Cores count for what computes on them.
  spec.oversubscribed = devices > static_cast<int>(cuda.devices.size()) ||
                        (spec.has_cpu_servers() && spec.oversubscribed);
}

}  // namespace

RunSpec make_run_spec(const Options& options, const RunCell& cell, const data::DatasetInfo& dataset,
                      const std::string& model_path, const HostDevices& host,
                      std::string_view gpu_advice) {
  RunSpec spec;
  spec.options = options_of_cell(options, cell);
  spec.cell = cell;
  spec.title = run_title(cell, options);
  spec.per_device_batch = per_device_batch(options, cell);
  // Goyal et al. 2017: the learning rate grows with the global batch.
  spec.lr = options.lr_scaling == "linear" ? options.lr * cell.world_size : options.lr;
  spec.model_path = model_path;
  spec.dataset = dataset;
  spec.steps_per_epoch = steps_per_epoch(spec);
  if (spec.steps_per_epoch < 1) {
    throw ConfigError(fmt::format(
        "a global batch of {} is larger than the {} training samples of {}, and --last-batch=drop "
        "drops it; use a smaller batch or --last-batch=pad",
        spec.global_batch(), dataset.train_samples, dataset.name));
  }
  place_on_cores(spec, host.cpu);
  if (options.device == "cuda") place_on_gpus(spec, host.cuda, gpu_advice);
  if (cell.cuda_graph == "on" && !can_record_steps(spec)) {
    throw UnavailableError(
        fmt::format("--cuda-graph=on: steps of {}{}{} cannot be recorded; use --cuda-graph=auto",
                    report::name_of(cell.strategy, cell.world_size, cell.servers),
                    options.injections.empty() ? "" : " with planted faults",
                    options.trace_path.empty() ? "" : " with --trace"));
  }
  spec.backend = resolve_backend(spec);
  if (cell.strategy == "dp") {
    refuse_nccl_between_threads("--strategy=dp", spec.backend, spec.oversubscribed);
  }
  return spec;
}

std::string common_backend(const std::vector<RunSpec>& runs) {
  std::vector<std::string> backends;
  for (const RunSpec& run : runs) backends.push_back(run.backend);
  return common_backend(backends);
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
  return report::verification_tolerance(unit_roundoff(spec.options.precision), terms,
                                        spec.options.verify_steps);
}

namespace {

std::string choose_precision(const Options& options, const HostDevices& host,
                             const std::string& device) {
  const std::string& wanted = options.precision;
  if (device == "cpu") {
    if (wanted == "auto" || wanted == "fp32") return "fp32";
    throw UnavailableError(fmt::format("--precision={}: CPU devices compute in fp32", wanted));
  }
  constexpr int kFirstWithTf32 = 80;
  for (const CudaDeviceInfo& gpu : host.cuda.devices) {
    if (gpu.compute_capability >= kFirstWithTf32) continue;
    if (wanted == "auto" || wanted == "fp32") return "fp32";
    throw UnavailableError(fmt::format("--precision={}: GPU {} ({}) has no tensor cores for it",
                                       wanted, gpu.ordinal, gpu.name));
  }
  return wanted == "auto" ? "tf32" : wanted;
}

}  // namespace

DeviceChoice choose_device(const Options& options, const HostDevices& host) {
  const KindChoice kind = choose_kind(options.device, options.backend, host);
  DeviceChoice choice{
      .device = kind.device, .server_device = "", .precision = "", .note = kind.note};
  if (choice.device == "cpu" && std::ranges::count(options.cuda_graphs, "on") > 0) {
    throw UnavailableError("--cuda-graph=on: CPU devices have no graphs; use --cuda-graph=auto");
  }
  if (choice.device == "cpu" && options.residency == "device") {
    throw UnavailableError(
        "--residency=device: CPU devices read the host's memory; use --residency=host");
  }
  choice.server_device = options.server_device == "auto" ? choice.device : options.server_device;
  if (choice.device == "cpu" && choice.server_device == "cuda") {
    throw ConfigError(
        "--server-device=cuda: servers on GPUs serve workers on GPUs, and these are on CPU "
        "devices; "
        "use --server-device=cpu");
  }
  choice.precision = choose_precision(options, host, choice.device);
  return choice;
}

int device_count(const HostDevices& host, const std::string& device) {
  return static_cast<int>(device == "cuda" ? host.cuda.devices.size() : host.cpu.cores.size());
}

}  // namespace ddpbench::bench
