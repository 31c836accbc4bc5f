// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankDevices: the devices of one process of a run, what executes operations on them, and what
// moves data between them and those of other processes. The one place that tells kinds of devices
// apart.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/run_spec.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store.h"
#include "parallel/replica_group.h"
#include "reports/gpu_info.h"

namespace ddpbench::bench {

struct RankDevices {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<ops::OpBackend>> backends;   // one a device
  std::vector<report::DriverBytes> driver_bytes;           // [device], until now; empty: no GPU
  std::unique_ptr<ReplicaGroup> group;                     // null when there is one device
  std::unique_ptr<comm::Communicator> world;               // null when there is one process
  std::vector<std::unique_ptr<comm::Communicator>> local;  // one a device, when there are several
};

struct RankPlace {
  int rank = 0;
  int processes = 1;
  // Indices of the process's devices among the run's: replicas, then servers.
  std::vector<int> devices;
  comm::Store* store = nullptr;    // null when there is one process
  std::function<void()> progress;  // of the communicator
};

// What the devices' drivers say now, under the name `stage`.
void note_driver_bytes(RankDevices& rank, const std::string& stage);

// Collective over the run's processes. The calling thread becomes the first device's leading
// thread.
RankDevices make_rank_devices(const RunSpec& spec, const RankPlace& place);

}  // namespace ddpbench::bench
