// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/run_plan.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/math.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/plan/training_checkpoint.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/model/parts.h"
#include "kernels/ops/cuda_backend.h"
#include "parallel/comm_backends.h"
#include "parallel/strategies.h"
#include "reports/data/report_view.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

// GPU workers may have servers on CPU devices: then GPUs use a backend of CPU devices, too.
void refuse_absent_backend(const std::string& word, const std::string& device,
                           const HostDevices& host) {
  const CommBackend* const row = find_comm_backend(word);
  if (row == nullptr) return;  // "auto"
  if (device == "cpu" && row->devices != DeviceKind::cpu) {
    throw UnavailableError(
        fmt::format("--backend={}: it connects GPUs, and the devices are on the CPU; use "
                    "--backend={}, or between hosts {}",
                    word, automatic_backend(DeviceKind::cpu, true).name,
                    backend_between_hosts(DeviceKind::cpu).name));
  }
  if (const std::string why = why_no_backend(*row, host.cuda); !why.empty()) {
    throw UnavailableError(fmt::format("--backend={}: {}", word, why));
  }
  if (!row->launcher.empty() && row->launcher != host.launcher && !is_launched()) {
    throw UnavailableError(
        fmt::format("--backend={}: {} starts its ranks, and did not start this process; start it "
                    "with {} -n RANKS ddpbench --backend={}, or give --launcher={}",
                    word, row->launcher, row->launcher, word, row->launcher));
  }
}

// Half the distance from 1 to the next number of the type that products are rounded to.
double unit_roundoff(const std::string& precision) {
  if (precision == "tf32" || precision == "fp16") return 0x1p-11;
  return precision == "bf16" ? 0x1p-8 : 0x1p-24;
}

std::int64_t per_device_batch(const RunCell& cell) {
  if (!cell.is_strong()) return cell.batch_size;
  const std::int64_t parts = std::int64_t{cell.world_size} * cell.accumulation_steps;
  if (cell.global_batch_size % parts != 0) {
    const std::string passes =
        cell.accumulation_steps > 1 ? fmt::format(" times {} passes", cell.accumulation_steps) : "";
    throw ConfigError(fmt::format("--global-batch-size={} is not a multiple of {} devices{}",
                                  cell.global_batch_size, cell.world_size, passes));
  }
  return cell.global_batch_size / parts;
}

// The backend that moves data between the devices of a run.
std::string resolve_backend(const TrainingJob& job) {
  const StrategyConfig config = strategy_config(job);
  const auto ranks = plan_strategy(config).ranks;
  if (ranks.size() == 1 && ranks[0].replicas.size() == 1) return "none";
  if (job.has_cpu_servers()) {
    const std::string host = choose_backend("auto", "cpu", true);
    const std::string& wanted = job.options.backend;
    if (wanted == "auto") return host;
    if (comm_backend(wanted).devices == DeviceKind::cpu) return wanted;
    throw ConfigError(
        fmt::format("--backend={} --server-device=cpu: {} connects GPUs only; use --backend={}, or "
                    "--server-device=cuda",
                    wanted, wanted, host));
  }
  const std::string name =
      choose_backend(job.options.backend, job.options.device, job.oversubscribed);
  // Threads of one process share memory, whatever connects the processes of other strategies.
  const bool threads = ranks.size() == 1 && !comm_backend(name).module.empty();
  return threads ? choose_backend("auto", job.options.device, job.oversubscribed) : name;
}

// Places all devices on cores, or those that are not on GPUs.
void place_on_cores(TrainingJob& job, const CpuTopology& cpu) {
  const int without = job.has_cpu_servers() ? job.cell.world_size : 0;
  const int devices = job.cell.world_size + job.cell.servers - without;
  CpuPlacement placement = place_cpu_devices(cpu, devices, job.options.threads_per_device);
  job.cores.resize(static_cast<std::size_t>(without));
  std::ranges::move(placement.device_cores, std::back_inserter(job.cores));
  job.oversubscribed = placement.oversubscribed;
}

// Places replicas on GPUs in turn, then servers unless they are on CPU devices.
void place_on_gpus(TrainingJob& job, const CudaProbe& cuda) {
  refuse_missing_gpus(cuda, "--gpus", job.cell.world_size, job.options.oversubscribe);
  const int devices = job.cell.world_size + (job.has_cpu_servers() ? 0 : job.cell.servers);
  job.gpus = next_gpus(cuda, devices);
  // Cores count for the devices that compute on them.
  job.oversubscribed = devices > static_cast<int>(cuda.devices.size()) ||
                       (job.has_cpu_servers() && job.oversubscribed);
}

// The last layers of a pipeline's parts: where none are chosen, as many as the network can have.
std::vector<int> find_cuts(const nn::ModelSpec& model, const std::string& wanted, RunCell& cell) {
  const auto names = wanted.empty() ? std::vector<std::string>{} : split(wanted, ',');
  if (!names.empty() && cell.stages == 0) cell.stages = 1 + static_cast<int>(names.size());
  const bool is_chosen = cell.stages > 0;
  for (cell.stages = stages_of(cell);; --cell.stages) {
    const std::string origin =
        wanted.empty() ? fmt::format("--stages={}", cell.stages) : fmt::format("--cut={}", wanted);
    const bool divides = cell.world_size % cell.stages == 0;
    try {
      if (divides) return nn::choose_cuts(model, cell.stages, names, origin);
    } catch (const ConfigError&) {
      if (is_chosen || cell.stages == 1) throw;
    }
    if (divides || !is_chosen) continue;
    throw ConfigError(fmt::format("{}: --gpus={} is no multiple of {} stages", origin,
                                  cell.world_size, cell.stages));
  }
}

// Finds a pipeline's stages and micro-batches, and refuses what cannot be split.
void choose_stages(TrainingJob& job) {
  RunCell& cell = job.cell;
  std::string& cut = job.options.cut;
  if (!strategy_traits(cell.strategy).splits_layers) {
    cut.clear();
    return;
  }
  const nn::ModelSpec model = nn::load_model_file(job.network.path, job.options.crop);
  cut = joined(find_cuts(model, cut, cell), ",",
               [&model](int layer) { return model.layers[static_cast<std::size_t>(layer)].name; });
  const std::int64_t batch = job.per_device_batch * cell.stages;
  if (cell.micro_batches == 0) {
    cell.micro_batches = kDefaultMicroBatches;
    while (batch % cell.micro_batches != 0) --cell.micro_batches;
  }
  if (batch % cell.micro_batches == 0) return;
  throw ConfigError(
      fmt::format("--micro-batches={} does not divide the batch of {} that a "
                  "pipeline of {} devices has",
                  cell.micro_batches, batch, cell.stages));
}

// A cycle is no longer than an epoch: else no timed step would average weights.
void choose_cycle(TrainingJob& job) {
  int& cycle = job.cell.sync_every;
  if (cycle > job.steps_per_epoch && cycle_steps(job) > 1) {
    throw ConfigError(
        fmt::format("--sync-every={}: an epoch has {}; give more --steps, or average more often",
                    cycle, counted(job.steps_per_epoch, "step")));
  }
  if (cycle == 0 && strategy_traits(job.cell.strategy).averages_weights) {
    cycle = static_cast<int>(std::min<std::int64_t>(kDefaultCycle, job.steps_per_epoch));
  }
  // What an approximate strategy computes is compared after whole cycles.
  int& steps = job.options.verify_steps;
  steps = round_up(steps, cycle_steps(job));
}

// Every timed step of every rank has a record in shared memory until the run's end.
void check_step_count(const TrainingJob& job) {
  constexpr double kMostSteps = 2e7;
  const double steps =
      static_cast<double>(job.options.epochs) * static_cast<double>(job.steps_per_epoch);
  if (steps <= kMostSteps) return;
  throw ConfigError(fmt::format(
      "--epochs={} of {} steps are {:.0f} timed steps; a run has at most {:.0f}. Use fewer epochs, "
      "or --steps",
      job.options.epochs, job.steps_per_epoch, steps, kMostSteps));
}

// A report that says "off" of what the user asked for would be worse than none.
void check_batch_norm(const TrainingJob& job) {
  if (!job.options.sync_batch_norm || job.synchronises_batch_norm()) return;
  throw ConfigError(fmt::format(
      "--sync-batch-norm=on: the network {} has no batch norm; leave the option out, or train a "
      "network with layers of type batch_norm2d (\"model\": \"resnet20\" in the configuration has "
      "some)",
      job.network.name));
}

// The most additions behind an element of a gradient: over the global batch and the largest map's
// positions, on the way over each layer's inputs and outputs, and in the velocity over all steps.
double additions(const TrainingJob& job, const nn::ModelSpec& model) {
  double own = 0, on_the_way = 0;
  for (const nn::LayerSpec& layer : model.layers) {
    if (!nn::has_weights(layer.type)) continue;
    const ops::Shape shape = model.plan_of(layer).parameters.at(0).shape;
    const auto weights = static_cast<double>(ops::element_count(shape));
    const double positions = layer.type == nn::LayerType::conv2d
                                 ? static_cast<double>(layer.output_shape.at(1)) *
                                       static_cast<double>(layer.output_shape.at(2))
                                 : 1;
    own = std::max(own, positions * static_cast<double>(job.global_batch()));
    on_the_way += weights / static_cast<double>(shape.at(0)) +
                  weights / static_cast<double>(shape.at(1) * layer.groups);
  }
  return own + on_the_way + job.options.verify_steps;
}

std::string choose_precision(const Options& options, const HostDevices& host,
                             const std::string& device) {
  const std::string& wanted = options.precision;
  if (device == "cpu") {
    if (wanted == "auto" || wanted == "fp32") return "fp32";
    if (wanted != "bf16")
      throw UnavailableError(
          fmt::format("--precision={0}: CPU devices compute in fp32 or bf16, since only GPUs have "
                      "operations in {0} here",
                      wanted));
    if (!host.no_cpu_bf16.empty())
      throw UnavailableError(fmt::format(
          "--precision={}: CPU devices compute in fp32 only here: {}", wanted, host.no_cpu_bf16));
    return wanted;
  }
  const std::string chosen = wanted == "auto" ? "tf32" : wanted;
  for (const CudaDeviceInfo& gpu : host.cuda.devices) {
    if (gpu.compute_capability >= first_capability(ops::cuda_precision(chosen))) continue;
    if (wanted == "auto") return "fp32";
    throw UnavailableError(fmt::format("--precision={}: GPU {} ({}) has no tensor cores for it",
                                       wanted, gpu.ordinal, gpu.name));
  }
  return chosen;
}

// Says for strategies whose replicas are threads that they do not use a library between processes.
void add_one_process_note(const Options& options, DeviceChoice& choice) {
  const CommBackend* const backend = find_comm_backend(options.backend);
  if (backend == nullptr || backend->module.empty()) return;
  for (const std::string& strategy : options.strategies) {
    if (!strategy_traits(strategy).one_process) continue;
    choice.note +=
        fmt::format("{}backend: {} is one process by nature, so its runs use {}, not {}",
                    choice.note.empty() ? "" : "\n", strategy,
                    choose_backend("auto", choice.device, options.oversubscribe), backend->name);
  }
}

}  // namespace

DeviceChoice choose_kind(const std::string& device, const std::string& backend,
                         const HostDevices& host, int most) {
  DeviceChoice choice{.device = device};
  const bool gpu = !host.cuda.devices.empty();
  if (device == "cuda" && !gpu) {
    throw UnavailableError(fmt::format("--device=cuda: {}; use --device=cpu", host.cuda.reason));
  }
  if (device == "auto") {
    choice.device = gpu ? "cuda" : "cpu";
    choice.note =
        gpu ? fmt::format("device: cuda (--device=auto: {}, the first is {})",
                          counted(host.cuda.devices.size(), "GPU"), host.cuda.devices[0].name)
            : fmt::format("device: cpu (--device=auto: {})", host.cuda.reason);
  }
  refuse_absent_backend(backend, choice.device, host);
  const std::string warning = shared_memory_warning(
      choose_backend(backend, choice.device, false),
      std::min(most, device_count(host, choice.device)), host.shared_memory_bytes);
  if (!warning.empty()) choice.note += (choice.note.empty() ? "" : "\n") + warning;
  return choice;
}

std::vector<int> next_gpus(const CudaProbe& cuda, int devices) {
  return mapped(std::views::iota(0, devices), [&cuda](int device) {
    return cuda.devices[static_cast<std::size_t>(device) % cuda.devices.size()].ordinal;
  });
}

void refuse_missing_gpus(const CudaProbe& cuda, std::string_view option, int devices,
                         bool oversubscribe, std::string_view advice) {
  const std::size_t there = cuda.devices.size();
  if (devices <= static_cast<int>(there) || oversubscribe) return;
  throw UnavailableError(fmt::format("{}={}: there {} {} here; {}", option, devices,
                                     there == 1 ? "is" : "are", counted(there, "GPU"), advice));
}

std::string common_backend(const std::vector<std::string>& backends) {
  std::string common;
  for (const std::string& backend : backends) {
    if (backend == "none" || backend == common) continue;
    if (!common.empty()) return "auto";
    common = backend;
  }
  return common.empty() ? "auto" : common;
}

std::string choose_backend(const std::string& wanted, const std::string& device, bool shared_gpus) {
  if (wanted != "auto") return wanted;
  return std::string(automatic_backend(device_kind(device), shared_gpus).name);
}

void check_link(const std::string& link, const std::string& backend, const std::string& device) {
  const CommBackend* const row = find_comm_backend(backend);
  if (link.empty() || row == nullptr || (row->emulates_links && device == "cpu")) return;
  throw ConfigError(fmt::format(
      "--emulate-link={}: {} between {} devices emulates no link; use --backend={} --device=cpu on "
      "one host, or leave it out",
      link, backend, device, automatic_backend(DeviceKind::cpu, true).name));
}

void refuse_sharing_threads(std::string_view command, const std::string& backend,
                            bool shared_gpus) {
  const CommBackend* const row = find_comm_backend(backend);
  if (row == nullptr || row->shares_devices || !shared_gpus) return;
  throw UnavailableError(
      fmt::format("{} --backend={} --oversubscribe: {} refuses ranks of one process that share a "
                  "GPU; use --backend={}",
                  command, backend, backend, automatic_backend(row->devices, true).name));
}

TrainingJob make_training_job(const Options& options, const RunCell& cell,
                              const data::DatasetInfo& dataset, const Network& network,
                              const HostDevices& host) {
  TrainingJob job;
  job.options = options;
  job.device = options.device;
  job.threads_per_device = options.threads_per_device;
  job.cell = cell;
  job.title = run_title(cell, options);
  job.per_device_batch = per_device_batch(cell);
  // Goyal et al. 2017: the learning rate grows with the global batch.
  const int growth = cell.world_size * cell.accumulation_steps;
  job.lr = options.lr_scaling == "linear" ? options.lr * growth : options.lr;
  job.network = network;
  choose_stages(job);
  check_batch_norm(job);
  job.dataset = dataset;
  job.steps_per_epoch = make_sampler(job).steps_per_epoch();
  if (options.steps) job.steps_per_epoch = std::min(job.steps_per_epoch, *options.steps);
  check_step_count(job);
  choose_cycle(job);
  place_on_cores(job, host.cpu);
  if (options.device == "cuda") place_on_gpus(job, host.cuda);
  job.backend = resolve_backend(job);
  check_link(options.emulate_link, job.backend, options.device);
  if (cell.cuda_graph == "on" && !can_record_steps(job)) {
    throw UnavailableError(fmt::format(
        "--cuda-graph=on: steps of {} over {} cannot be recorded with these options; use "
        "--cuda-graph=auto",
        run_name(job), job.backend));
  }
  check_checkpointing(job);
  if (all_reduces(cell)) {
    job.all_reduce = all_reduce_name(comm_backend(job.backend), cell.all_reduce,
                                     cell.world_size / stages_of(cell));
  }
  if (strategy_traits(cell.strategy).one_process) {
    refuse_sharing_threads("--strategy=" + cell.strategy, job.backend, job.oversubscribed);
  }
  if (cell.devices_per_process > 1) {
    refuse_sharing_threads(fmt::format("--devices-per-process={}", cell.devices_per_process),
                           job.backend, job.oversubscribed);
  }
  return job;
}

std::string plan_line(const TrainingJob& job, std::size_t cores) {
  std::string line =
      fmt::format("{}: batch {} per device{}, {} global, {} of {}", job.title, job.per_device_batch,
                  job.cell.accumulation_steps > 1
                      ? fmt::format(" in each of {} passes", job.cell.accumulation_steps)
                      : "",
                  job.global_batch(), counted(job.options.epochs, "epoch"),
                  counted(job.steps_per_epoch, "step"));
  if (!job.oversubscribed) return line;
  line += ", oversubscribed";
  if (!job.gpus.empty()) return line;
  const int devices = job.cell.world_size + job.cell.servers;
  return line + fmt::format(" ({} of {} on {}: its times say nothing about scaling)",
                            counted(devices, "device"),
                            counted(job.options.threads_per_device, "thread"),
                            counted(cores, "core"));
}

void refuse_crowd(const TrainingJob& job, const HostDevices& host) {
  constexpr std::size_t kMostPerCore = 16;
  const auto devices = static_cast<std::size_t>(job.cell.world_size + job.cell.servers);
  const std::size_t cores = host.cpu.cores.size();
  if (job.device == "cuda" || job.options.oversubscribe || devices <= kMostPerCore * cores) return;
  throw UnavailableError(
      fmt::format("--gpus={}: there {} {} here, for at most {} devices; use fewer, or give "
                  "--oversubscribe",
                  job.cell.world_size, cores == 1 ? "is" : "are", counted(cores, "core"),
                  kMostPerCore * cores));
}

double turns(const TrainingJob& job, const HostDevices& host) {
  const int threads = job.device == "cuda" ? 1 : job.options.threads_per_device;
  return std::max(1.0, static_cast<double>((job.cell.world_size + job.cell.servers) * threads) /
                           device_count(host, job.device));
}

double expected_s(const TrainingJob& job, double step_s) {
  constexpr double kEvaluating = 1.0 / 3;  // of a step: forward alone
  const RunOptions& options = job.options;
  const double evaluation = kEvaluating * static_cast<double>(job.dataset.test_samples) /
                            static_cast<double>(job.global_batch());
  if (options.epochs == 0) return step_s * evaluation;
  const double epoch = static_cast<double>(job.steps_per_epoch) + evaluation;
  const int verified = needs_reference(job) ? options.verify_steps : 0;
  // A warm-up whose step times vary is longer than it must be, and has enough cycles to tell.
  const std::int64_t cycle = cycle_steps(job), limit = round_up(warmup_limit(options), cycle);
  const auto warmup = std::min<std::int64_t>(
      limit, std::max<std::int64_t>(2 * options.warmup_steps, cycle * report::kFewestForSteady));
  return step_s * (verified + static_cast<double>(warmup) + options.epochs * epoch);
}

bool needs_reference(const TrainingJob& job) {
  return job.options.verify_steps > 0 && job.options.epochs > 0 &&
         outcome_of(strategy_config(job)) != Outcome::baseline;
}

TrainingJob reference_job(const TrainingJob& job) {
  TrainingJob reference = job;
  reference.cell.strategy = "reference";
  reference.cell.servers = 0;
  reference.options.injections.clear();
  reference.backend = "none";
  reference.all_reduce.clear();
  // Where batch norm is synchronised the reference takes the slices at once.
  const StrategyConfig config = strategy_config(job);
  reference.cell.world_size = config.replicas;
  reference.cell.accumulation_steps = config.accumulation_steps;
  reference.per_device_batch = config.per_device_batch;
  const int slices = job.synchronises_batch_norm() ? 1 : config.replicas;
  const std::int64_t samples = config.per_device_batch * config.replicas / slices;
  reference.title = fmt::format("reference on one device ({} of {})", counted(slices, "slice"),
                                counted(samples, "sample"));
  return reference;
}

std::string reference_key(const TrainingJob& job) {
  const nlohmann::json options = to_json(job).at("options");
  nlohmann::json numerics;
  for (const auto& [key, value] : options.items()) {
    const bool is_update = key == "optimizer" || key.starts_with("lr_");
    if (is_update || key == "precision" || key == "sync_batch_norm") numerics[key] = value;
  }
  const StrategyConfig config = strategy_config(job);
  return fmt::format("{} {} {} {} {} {}", config.replicas, config.per_device_batch,
                     config.accumulation_steps, job.options.verify_steps, job.lr, numerics.dump());
}

double tolerance_for(const TrainingJob& job, const nn::ModelSpec& model) {
  if (job.options.verify_steps == 0) return 0;
  return report::verification_tolerance(unit_roundoff(job.options.precision),
                                        additions(job, model));
}

DeviceChoice choose_device(const Options& options, const HostDevices& host) {
  DeviceChoice choice = choose_kind(options.device, options.backend, host,
                                    options.all_gpus ? INT_MAX : std::ranges::max(options.gpus));
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
        "devices; use --server-device=cpu");
  }
  choice.precision = choose_precision(options, host, choice.device);
  add_one_process_note(options, choice);
  return choice;
}

int device_count(const HostDevices& host, const std::string& device) {
  return static_cast<int>(device == "cuda" ? host.cuda.devices.size() : host.cpu.cores.size());
}

}  // namespace ddpbench::bench
