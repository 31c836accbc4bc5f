// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankDevices: the devices of one rank of a run, their op backends, and the communicators that
// connect them with each other and with other ranks. `ddpbench comm` runs no operations; it makes
// its devices and communicators one by one.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bench/plan/training_job.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm_backends.h"
#include "parallel/strategy.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

struct RankDevices {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<ops::OpBackend>> backends;   // one per device
  std::vector<report::DriverBytes> driver_bytes;           // [device], so far; empty: no GPU
  std::unique_ptr<ReplicaGroup> group;                     // null for one device
  std::unique_ptr<comm::Communicator> world;               // null for one rank
  std::vector<std::unique_ptr<comm::Communicator>> local;  // one per device if there are several
  // For --sync-batch-norm: one per device that trains, over all that do; else empty.
  std::vector<std::unique_ptr<comm::Communicator>> statistics;
  // pipeline, ps: StrategyContext's of these names; else null.
  std::unique_ptr<comm::Communicator> alike, returns, control;

  std::vector<comm::Communicator*> communicators() const;  // all that there are; world first
};

// Sets the backend's environment variables. Call it while the process has one thread and no device.
// `rank`: its first.
void prepare_rank(const DevicePlan& plan, int rank, const RankNetwork& network = {});
// Returns connect(), which makes communicators between the devices of `owner`. When that throws,
// the devices stay behind until the process ends: a thread that still joins the others may use
// them, and destroying them could wait for it.
template <typename Owner, typename Connect>
auto connect_devices(Owner& owner, Connect&& connect) {
  try {
    return connect();
  } catch (...) {
    static_cast<void>(new Owner(std::move(owner)));
    throw;
  }
}
// Makes device number `index` of the plan. Opens the CUDA module for a GPU.
std::unique_ptr<Device> make_device(const DevicePlan& plan, int index);
// `device` outlives the operations.
std::unique_ptr<ops::OpBackend> make_backend(const TrainingJob& job, Device& device);
// Collective over `size` processes, with one device of each, which outlives the communicator.
std::unique_ptr<comm::Communicator> make_world(const DevicePlan& plan, comm::Store& store, int rank,
                                               int size, Device& device,
                                               const WorldOptions& options);

// What the communicator's all-reduces of registered memory have run so far: "ring", "direct" or
// "ring,direct". Empty where it does not tell, or is null.
std::string all_reduces_run(const comm::Communicator* world);

// Records under the name `stage` how many bytes the devices' drivers have in use now.
void note_driver_bytes(RankDevices& rank, const std::string& stage);

// Makes the run's devices with these numbers (replicas, then servers) for rank `number`, and
// connects them. `store`: null for one rank. `world`: of the communicator between all ranks, but
// what the job says. Collective over the run's ranks. REQUIRES: prepare_rank(). The calling thread
// becomes the first device's leading thread.
RankDevices make_rank_devices(const TrainingJob& job, int number, int ranks,
                              const std::vector<int>& devices, comm::Store* store,
                              WorldOptions world);

}  // namespace ddpbench::bench
