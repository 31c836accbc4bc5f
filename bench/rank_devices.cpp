// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank_devices.h"

#include "bench/host_devices.h"
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
  for (const int index : place.devices) {
    rank.devices.push_back(
        make_cpu_device({.index = index,
                         .threads = spec.options.threads_per_device,
                         .cores = spec.cores.at(static_cast<std::size_t>(index))}));
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
  if (spec.options.precision == "fp32") options.precision = ops::CudaPrecision::fp32;
  if (spec.options.precision == "bf16") options.precision = ops::CudaPrecision::bf16;
  return options;
}

void make_cuda_devices(RankDevices& rank, const RunSpec& spec, const RankPlace& place) {
  const CudaModule& cuda = cuda_module();
  for (const int index : place.devices) {
    rank.devices.push_back(cuda.make_device(
        {.index = index, .ordinal = spec.gpus.at(static_cast<std::size_t>(index))}));
  }
  lead_devices(rank);
  for (const auto& device : rank.devices) {
    rank.backends.push_back(cuda.make_backend(*device, backend_options(spec)));
  }
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
}

}  // namespace

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
