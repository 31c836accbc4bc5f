// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of this host, found without making a context on any of them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "kernels/runtime/cuda/cuda_error.h"
#include "kernels/runtime/cuda/native_device.h"
#include "kernels/runtime/cuda_device.h"

namespace ddpbench {
namespace {

std::string version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The kernel knows the NUMA node that a PCI device is near to; -1 when there is only one.
int numa_node_of(const std::string& pci_bus_id) {
  std::string address = pci_bus_id;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ifstream file("/sys/bus/pci/devices/" + address + "/numa_node");
  int node = -1;
  file >> node;
  return file ? node : -1;
}

CudaDeviceInfo describe(int ordinal) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  std::array<char, 32> bus{};
  cuda::check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal),
              "cudaDeviceGetPCIBusId");
  return {.ordinal = ordinal,
          .name = properties.name,
          .uuid = cuda::uuid_text(properties.uuid),
          .pci_bus_id = bus.data(),
          .compute_capability = 10 * properties.major + properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem,
          .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize),
          .numa_node = numa_node_of(bus.data())};
}

CudaLink link_between(int from, int to) {
  CudaLink link{.from = from, .to = to};
  int access = 0;
  cuda::check(cudaDeviceCanAccessPeer(&access, from, to), "cudaDeviceCanAccessPeer");
  link.peer_access = access != 0;
  return link;
}

void probe_devices(int count, CudaProbe& probe) {
  for (int i = 0; i < count; ++i) probe.devices.push_back(describe(i));
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from != to) probe.links.push_back(link_between(from, to));
    }
  }
}

}  // namespace

CudaProbe probe_cuda() {
  CudaProbe probe;
  int driver = 0, runtime = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) probe.driver_version = version_text(driver);
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) probe.runtime_version = version_text(runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (driver == 0) {
    probe.reason = "there is no NVIDIA driver";
  } else if (status != cudaSuccess) {
    probe.reason = fmt::format("CUDA finds no GPU: {}", cudaGetErrorString(status));
  } else if (count == 0) {
    probe.reason = "there is no GPU (or CUDA_VISIBLE_DEVICES hides it)";
  }
  if (!probe.reason.empty()) return probe;
  try {
    probe_devices(count, probe);
  } catch (const Error& error) {
    probe.devices.clear();
    probe.links.clear();
    probe.reason = error.what();
  }
  return probe;
}

}  // namespace ddpbench
