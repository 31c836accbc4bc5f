// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that a run takes on its devices: planned before any rank of it starts, and claimed by
// its ranks, before any device of the run allocates; and how full that makes theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/feed/batch_source.h"
#include "bench/plan/training_job.h"
#include "datasets/dataset.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/store/store.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// The devices that tell each other how much they will take of memory that they share: that of a
// GPU, or the host's.
struct ClaimMeeting {
  comm::Store* store = nullptr;            // common to all devices
  int index = 0, devices = 1;              // of this device; of those that take part
  double timeout_s = 60;                   // limit of each wait
  std::function<void()> check_peers = {};  // polled; throws when others cannot come any more
};
// Returns all claims to the memory of which the device claims own(), in the order of the devices.
// Calls own() when all devices have planned, so that the memory that planning took is free again.
// Collective over the devices. Throws CommTimeout that names the first device that does not come.
std::vector<MemoryClaim> exchange_claims(const ClaimMeeting& meeting,
                                         const std::function<MemoryClaim()>& own);

// The options of the source of a rank's batches.
BatchSourceOptions batch_source_options(const TrainingJob& job, const RankPlan& plan);

// The batch of an evaluation on one replica; it has no memory yet.
BatchMemory evaluation_batch(const TrainingJob& job, const data::Split& test);

// Copies of the batches of a step's passes, without memory yet, for a reference that takes them
// twice; else none.
std::vector<BatchMemory> kept_batches(const TrainingJob& job, const RankPlan& plan);

// Adds batches, the resident data set and the evaluation's batch to what devices[i] of the rank
// needs (StrategyContext::admit).
void add_session_memory(const TrainingJob& job, const RankPlan& plan, const data::Dataset& dataset,
                        std::size_t i, MemoryNeeds& needs);

// The memory that the rank claims on a device for the run.
MemoryClaim memory_claim(const TrainingJob& job, const RankPlan& plan, const MemoryNeeds& needs);

// Devices of a run that take the same memory.
struct PlannedDevice {
  std::string role;  // "the device", "the primary device", "another device", "a server"
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
// One device of each kind that the job's ranks have.
struct PlanningDevices {
  PlanningDevice workers, servers;  // servers: null where they are planned like the workers
};
// Makes those that `job` needs and that are not in `devices` yet. The calling thread leads them.
void add_planning_devices(const TrainingJob& job, PlanningDevices& devices);

// What the job's ranks will allocate, without what communicators and libraries hold. REQUIRES:
// add_planning_devices().
std::vector<PlannedDevice> plan_run_memory(const TrainingJob& job, const nn::ModelSpec& model,
                                           const data::Dataset& dataset,
                                           const PlanningDevices& devices);

// The memory that the devices of a run count against.
struct FitMemories {
  std::size_t device_bytes = 0;  // of each worker, and of the servers on devices of their kind
  bool are_shared = false;       // all devices of a run take theirs of these bytes together
  std::string words;             // where the number is from
  std::size_t host_bytes = 0;    // for all servers on CPU devices beside GPUs
};

// --memory-per-device, or what the devices have free now beside a data set of so many bytes. Throws
// UnavailableError when a device does not tell.
FitMemories find_memories(const RunOptions& options, const PlanningDevices& planning,
                          std::size_t data_set);

// How full a memory is.
struct Fullness {
  std::string role;      // of the devices that take theirs of it
  bool on_host = false;  // as of these
  std::size_t bytes = 0, limit_bytes = 0;
  CategoryBytes by_category{};

  double share() const { return static_cast<double>(bytes) / static_cast<double>(limit_bytes); }
};
// Of a run, or of its reference: each role once.
std::vector<Fullness> fullness_of(const std::vector<PlannedDevice>& planned,
                                  const FitMemories& memories);
// REQUIRES: `all` is not empty.
const Fullness& fullest(const std::vector<Fullness>& all);

// Reads "16GiB", "80GB", "512MiB" or a number of bytes; K, M, G and T alone are powers of 1024.
// Nothing for no text. Throws ConfigError for other text, and for no byte at all.
std::optional<std::uint64_t> asked_memory(const std::string& text);

}  // namespace ddpbench::bench
