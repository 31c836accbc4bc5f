// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that a run will take on its devices, planned before any rank of it starts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "datasets/dataset.h"
#include "kernels/runtime/memory_needs.h"

namespace ddpbench::bench {

// Devices of a run that take the same memory.
struct PlannedDevice {
  std::string role;  // "the device", "the primary device", "another device", "a server"
  int first = 0;     // the number of the first of them among the run's devices
  int count = 1;
  bool on_host = false;  // a CPU device beside GPUs: a server
  std::size_t bytes = 0;
  CategoryBytes by_category{};
};

// A device on which graphs are planned, with its operations.
struct PlanningDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<ops::OpBackend> backend;
};
// One device of each kind that the job's ranks have. Servers may be on CPU devices while workers
// are on GPUs.
struct PlanningDevices {
  PlanningDevice workers, servers;  // servers: null where they are planned like the workers
};
// Makes those that `job` needs and that are not in `devices` yet. The calling thread leads them
// from now on. Throws as make_device and the CUDA module do.
void add_planning_devices(const TrainingJob& job, PlanningDevices& devices);

// [device] The number of the process that has it: the workers' devices, then the servers'.
std::vector<int> processes_of_devices(const TrainingJob& job);

// What the job's ranks will allocate: graphs, optimizer, batches, evaluation, shards. What
// communicators and libraries hold beside it is not in it. REQUIRES: add_planning_devices().
std::vector<PlannedDevice> plan_run_memory(const TrainingJob& job, const nn::ModelSpec& model,
                                           const data::Dataset& dataset,
                                           const PlanningDevices& devices);

}  // namespace ddpbench::bench
