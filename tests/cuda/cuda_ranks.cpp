// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/cuda_ranks.h"

#include <cstdlib>
#include <thread>

#include "kernels/runtime/cuda_device.h"

namespace ddpbench::comm::testing {

namespace {

constexpr double kStart_s = 60;

}  // namespace

std::string why_no_gpu() {
  const Outcome outcome = run_processes(1, [](Store&, int) {
    const CudaProbe probe = probe_cuda();
    check(!probe.devices.empty(), probe.reason);
  });
  return outcome.errors[0];
}

Outcome run_cuda_threads(int size, const CudaRankFunction& function) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> pointers;
  for (int rank = 0; rank < size; ++rank) {
    devices.push_back(make_cuda_device({.index = rank, .ordinal = 0}));
    pointers.push_back(devices.back().get());
  }
  auto ranks = make_thread_shm(size, {});
  Outcome outcome{std::vector<std::string>(ranks.size())};
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        pointers[rank]->bind_calling_thread();
        const auto own = make_staged(std::move(ranks[rank]), *pointers[rank], /*blocks=*/true);
        function(*own, *pointers[rank]);
      } catch (const std::exception& error) {
        outcome.errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

Outcome run_cuda_processes(CudaBackend backend, int size, const CudaRankFunction& function,
                           double timeout_s) {
  return run_processes(size, [&](Store& store, int rank) {
    ::setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    // The program's ranks do the same (prepare_rank): connecting does not count in a test's
    // deadline.
    ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    device->bind_calling_thread();
    // The contexts of one GPU are made one after the other.
    store_barrier(store, "devices", size, kStart_s);
    std::unique_ptr<Communicator> communicator;
    if (backend == CudaBackend::nccl) {
      communicator = make_nccl(store, rank, size, *device, {.timeout_s = timeout_s});
    } else {
      WorldOptions host;
      host.timeout_s = timeout_s;
      communicator = make_staged(make_shm(store, rank, size, host), *device);
    }
    function(*communicator, *device);
  });
}

}  // namespace ddpbench::comm::testing
