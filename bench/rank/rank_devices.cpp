// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_devices.h"

#include <cstdlib>

#include "base/error.h"
#include "base/ranges.h"
#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "bench/plan/data_places.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/cuda_module.h"

namespace ddpbench::bench {
namespace {

ops::CudaBackendOptions backend_options(const TrainingJob& job) {
  ops::CudaBackendOptions options;
  options.deterministic = job.options.deterministic;
  const std::string place = data_directory("");
  if (!place.empty()) options.cache_directory = place + "/cuda";
  options.precision = ops::cuda_precision(job.options.precision);
  return options;
}

// Returns `options` in the form that the backend's row takes.
WorldOptions completed(const WorldOptions& options, const CommBackend& backend) {
  WorldOptions world = options;
  if (backend.devices == DeviceKind::cuda) world.cuda = &cuda_module();
  if (!backend.module.empty()) world.module = &backend_module(backend);
  return world;
}

}  // namespace

void prepare_rank(const DevicePlan& plan, int rank, const RankNetwork& network) {
  const CommBackend* const backend = find_comm_backend(plan.backend);
  if (backend == nullptr || backend->variables == nullptr) return;
  const RankSurroundings surroundings{host_name(), rank, plan.oversubscribed, network};
  for (const auto& [name, value] : backend->variables(surroundings)) {
    ::setenv(name.c_str(), value.c_str(), 0);
  }
}

std::unique_ptr<Device> make_device(const DevicePlan& plan, int index) {
  const auto place = static_cast<std::size_t>(index);
  if (plan.is_on_gpu(index)) {
    return cuda_module().make_device({.index = index, .ordinal = plan.gpus.at(place)});
  }
  const MemoryLimit memory = memory_limit(read_host_limits());
  return make_cpu_device({.index = index,
                          .threads = plan.threads_per_device,
                          .cores = plan.cores.at(place),
                          .memory_limit_bytes = memory.bytes,
                          .memory_pool = memory.pool});
}

// The widest reads of kernels and of NVIDIA's libraries need tensors that begin at a multiple of
// this.
constexpr std::size_t kGpuAlignment = 16;

std::unique_ptr<ops::OpBackend> make_backend(const TrainingJob& job, Device& device) {
  const bool on_cpu = device.kind() == DeviceKind::cpu;
  // Servers beside workers on GPUs only update, in fp32.
  const ops::CudaPrecision precision =
      job.device == "cpu" ? ops::cuda_precision(job.options.precision) : ops::CudaPrecision::fp32;
  auto backend = on_cpu ? ops::make_onednn_backend(device, ops::compute_type(precision),
                                                   job.options.deterministic)
                        : cuda_module().make_backend(device, backend_options(job));
  // The reference then takes at once what the replicas take one slice of each.
  if (!job.is_reference() || !job.synchronises_batch_norm()) return backend;
  backend->slice(job.per_device_batch, on_cpu ? 1 : kGpuAlignment);
  return backend;
}

std::unique_ptr<comm::Communicator> make_world(const DevicePlan& plan, comm::Store& store, int rank,
                                               int size, Device& device,
                                               const WorldOptions& options) {
  const CommBackend& backend = comm_backend(plan.backend);
  auto world = backend.make(store, rank, size, device, completed(options, backend));
  if (!is_staged(backend, device.kind())) return world;
  return cuda_module().make_staged(std::move(world), device, options.blocks);
}

std::vector<comm::Communicator*> RankDevices::communicators() const {
  std::vector<comm::Communicator*> all;
  if (world) all.push_back(world.get());
  for (const auto& one : local) all.push_back(one.get());
  for (const auto& one : statistics) all.push_back(one.get());
  for (const auto* one : {&alike, &returns, &control}) {
    if (*one) all.push_back(one->get());
  }
  return all;
}

std::string all_reduces_run(const comm::Communicator* world) {
  if (world == nullptr) return "";
  return joined(world->all_reduces_run(), ",",
                [](comm::AllReduceAlgorithm one) { return to_string(one); });
}

void note_driver_bytes(RankDevices& rank, const std::string& stage) {
  rank.driver_bytes.resize(rank.devices.size());
  for (std::size_t i = 0; i < rank.devices.size(); ++i) {
    const std::optional<DriverMemory> memory = rank.devices[i]->driver_memory();
    if (memory) rank.driver_bytes[i][stage] = memory->used_bytes;
  }
}

// The communicators of a pipeline beside the world. Only those of host memory let messages pass
// each other, so GPUs have one for each direction.
static void connect_stages(const TrainingJob& job, int number, Device& device, comm::Store* store,
                           WorldOptions world, RankDevices& rank) {
  const StrategyConfig config = strategy_config(job);
  if (config.stages == 1) return;
  const int stage = number % config.stages;
  world.name = fmt::format("stage {}", stage);
  if (config.replicas > 1) {
    rank.alike = make_world(job, *store, number / config.stages, config.replicas, device, world);
  }
  world.name = "returns";
  if (job.device != "cuda") return;
  rank.returns = make_world(job, *store, number, job.cell.world_size, device, world);
}

// StrategyContext::control, over the hosts that the world spans.
static std::unique_ptr<comm::Communicator> make_control(const TrainingJob& job, int number,
                                                        int ranks, Device& device,
                                                        comm::Store& store, WorldOptions world) {
  if (job.cell.servers == 0 || job.device != "cuda") return nullptr;
  constexpr DeviceKind kHost = DeviceKind::cpu;
  const CommBackend& own = comm_backend(job.backend);
  const CommBackend& row = own.devices == kHost    ? own
                           : world.address.empty() ? automatic_backend(kHost, false)
                                                   : backend_between_hosts(kHost);
  world.name = "control";
  return row.make(store, number, ranks, device, completed(world, row));
}

// For the replicas of one rank, each in its thread: [replica].
static std::vector<std::unique_ptr<comm::Communicator>> make_thread_world(
    const DevicePlan& plan, RankDevices& rank, const WorldOptions& options) {
  const CommBackend& backend = comm_backend(plan.backend);
  const WorldOptions world = completed(options, backend);
  const auto size = static_cast<int>(rank.devices.size());
  std::vector<std::unique_ptr<comm::Communicator>> worlds(rank.devices.size());
  if (backend.make_for_threads != nullptr) worlds = backend.make_for_threads(size, world);
  const auto store = comm::make_local_store();
  rank.group->run([&](std::size_t i) {
    Device& device = *rank.devices[i];
    if (!worlds[i]) worlds[i] = backend.make(*store, static_cast<int>(i), size, device, world);
    if (!is_staged(backend, device.kind())) return;
    worlds[i] = cuda_module().make_staged(std::move(worlds[i]), device, /*blocks=*/true);
  });
  return worlds;
}

RankDevices make_rank_devices(const TrainingJob& job, int number, int ranks,
                              const std::vector<int>& devices, comm::Store* store,
                              WorldOptions world) {
  RankDevices rank;
  for (const int index : devices) rank.devices.push_back(make_device(job, index));
  note_driver_bytes(rank, "with_context");
  if (rank.devices.size() > 1) {
    rank.group = make_thread_replica_group(
        mapped(rank.devices, [](const auto& device) { return device.get(); }));
  } else {
    rank.devices[0]->bind_calling_thread();
  }
  for (const auto& device : rank.devices) rank.backends.push_back(make_backend(job, *device));
  note_driver_bytes(rank, "with_libraries");
  world.timeout_s = wait_limit_s(job.options.timeout_s);
  world.thread_cores = job.cores.at(static_cast<std::size_t>(devices[0]));
  world.all_reduce = comm::all_reduce_algorithm(job.cell.all_reduce);
  world.link = comm::parse_link(job.options.emulate_link);
  world.blocks = job.cell.devices_per_process > 1 || job.synchronises_batch_norm();
  connect_devices(rank, [&] {
    if (ranks > 1) {
      rank.world = make_world(job, *store, number, ranks, *rank.devices[0], world);
      rank.control = make_control(job, number, ranks, *rank.devices[0], *store, world);
    }
    // Servers of ps take no part.
    const int trainers = job.cell.world_size;
    const bool synchronises = job.synchronises_batch_norm() && !job.is_reference() && trainers > 1;
    world.watch = nullptr;
    world.name = "statistics";
    if (synchronises && ranks > 1 && number < trainers) {
      rank.statistics.push_back(make_world(job, *store, number, trainers, *rank.devices[0], world));
    }
    connect_stages(job, number, *rank.devices[0], store, world, rank);
    world.progress = nullptr;
    if (rank.devices.size() == 1) return;
    world.link = {};  // they are in one process
    if (synchronises) rank.statistics = make_thread_world(job, rank, world);
    world.name = "replicas";
    rank.local = make_thread_world(job, rank, world);
  });
  note_driver_bytes(rank, "with_communicators");
  return rank;
}

}  // namespace ddpbench::bench
