// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank_devices.h"

#include <cstdlib>

#include "bench/data_places.h"
#include "bench/environment_capture.h"
#include "bench/host_devices.h"
#include "bench/host_limits.h"
#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/error.h"
#include "parallel/comm/ring.h"
#include "parallel/cuda_module.h"

namespace ddpbench::bench {
namespace {

std::vector<Device*> pointers(const RankDevices& rank) {
  std::vector<Device*> devices;
  for (const auto& device : rank.devices) devices.push_back(device.get());
  return devices;
}

void lead_devices(RankDevices& rank) {
  if (rank.devices.size() > 1) {
    rank.group = make_thread_replica_group(pointers(rank));
  } else {
    rank.devices[0]->bind_calling_thread();
  }
}

void make_cpu_devices(RankDevices& rank, const RunSpec& spec, const RankPlace& place) {
  const std::uint64_t memory_limit = memory_limit_bytes(read_host_limits());
  for (const int index : place.devices) {
    rank.devices.push_back(make_cpu_device({.index = index,
                                            .threads = spec.options.threads_per_device,
                                            .cores = spec.cores.at(static_cast<std::size_t>(index)),
                                            .memory_limit_bytes = memory_limit}));
  }
  lead_devices(rank);
  for (const auto& device : rank.devices) {
    rank.backends.push_back(ops::make_onednn_backend(*device));
  }
  comm::RingOptions ring;
  ring.timeout_s = wait_limit_s(spec.options);
  ring.thread_cores = spec.cores.at(static_cast<std::size_t>(place.devices[0]));
  ring.progress = place.progress;
  if (place.processes > 1) {
    rank.world = comm::make_ring(*place.store, place.rank, place.processes, ring);
  }
  ring.progress = nullptr;
  if (rank.devices.size() > 1) {
    rank.local = comm::make_thread_ring(static_cast<int>(rank.devices.size()), ring);
  }
}

ops::CudaBackendOptions backend_options(const RunSpec& spec) {
  ops::CudaBackendOptions options;
  options.deterministic = spec.options.deterministic;
  const std::vector<std::string> places = data_directories("");
  if (!places.empty() && !places[0].empty()) options.cache_directory = places[0] + "/cuda";
  if (spec.options.precision == "fp32") options.precision = ops::CudaPrecision::fp32;
  if (spec.options.precision == "bf16") options.precision = ops::CudaPrecision::bf16;
  return options;
}

// NCCL takes ranks of one host on one GPU for a mistake. Ranks that shall share one say that they
// are on hosts of their own; they then talk through sockets, so this tests, and measures nothing.
void pretend_hosts(const RunSpec& spec, int rank) {
  if (spec.backend != "nccl" || !spec.oversubscribed) return;
  ::setenv("NCCL_HOSTID", fmt::format("{}-{}", host_name(), rank).c_str(), 0);
}

void make_cuda_devices(RankDevices& rank, const RunSpec& spec, const RankPlace& place) {
  pretend_hosts(spec, place.rank);
  const CudaModule& cuda = cuda_module();
  for (const int index : place.devices) {
    rank.devices.push_back(cuda.make_device(
        {.index = index, .ordinal = spec.gpus.at(static_cast<std::size_t>(index))}));
  }
  note_driver_bytes(rank, "with_context");
  lead_devices(rank);
  for (const auto& device : rank.devices) {
    rank.backends.push_back(cuda.make_backend(*device, backend_options(spec)));
  }
  note_driver_bytes(rank, "with_libraries");
  comm::CudaCommOptions options;
  options.timeout_s = wait_limit_s(spec.options);
  options.progress = place.progress;
  const bool nccl = spec.backend == "nccl";
  if (place.processes > 1) {
    const auto make = nccl ? &CudaModule::make_nccl : &CudaModule::make_ring;
    rank.world = (cuda.*make)(*place.store, place.rank, place.processes, *rank.devices[0], options);
  }
  options.progress = nullptr;
  options.name = "replicas";
  if (rank.devices.size() > 1) {
    const auto make = nccl ? &CudaModule::make_thread_nccl : &CudaModule::make_thread_ring;
    rank.local = (cuda.*make)(pointers(rank), options);
  }
  note_driver_bytes(rank, "with_communicators");
}

}  // namespace

void note_driver_bytes(RankDevices& rank, const std::string& stage) {
  rank.driver_bytes.resize(rank.devices.size());
  for (std::size_t i = 0; i < rank.devices.size(); ++i) {
    const std::optional<DriverMemory> memory = rank.devices[i]->driver_memory();
    if (memory) rank.driver_bytes[i][stage] = memory->used_bytes;
  }
}

RankDevices make_rank_devices(const RunSpec& spec, const RankPlace& place) {
  RankDevices rank;
  if (spec.options.device == "cuda") {
    make_cuda_devices(rank, spec, place);
  } else {
    make_cpu_devices(rank, spec, place);
  }
  return rank;
}

}  // namespace ddpbench::bench
