// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that a run will take on its devices, planned before any process of it starts.
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
  int count = 1;
  std::size_t bytes = 0;
  CategoryBytes by_category{};
};

// A device for planning, and its operations. It is of the kind that the job's workers have.
struct PlanningDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<ops::OpBackend> backend;
};
// The calling thread leads the device from now on. Throws as make_device and the CUDA module do.
PlanningDevice make_planning_device(const TrainingJob& job);

// What the job's ranks will allocate: graphs, optimizer, batches, evaluation, shards. What
// communicators and libraries hold beside it is not in it. Servers are planned on the same kind of
// device as workers.
std::vector<PlannedDevice> plan_run_memory(const TrainingJob& job, const nn::ModelSpec& model,
                                           const data::Dataset& dataset,
                                           const PlanningDevice& place);

}  // namespace ddpbench::bench
