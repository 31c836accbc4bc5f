// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// TrainingJob: all that the ranks of one run need to know. The supervisor makes it and hands it
// to the ranks as JSON, so that nothing is decided twice.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "bench/plan/sweep_plan.h"
#include "datasets/batch_assembler.h"
#include "datasets/dataset.h"
#include "datasets/sharded_sampler.h"
#include "kernels/nn/model/model.h"
#include "parallel/strategy.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The network that a run trains. Reports know it by name and content, not by the place of its file.
struct Network {
  std::string path;  // of its file
  std::string name;
  std::string hash;             // of its content (nn::content_hash), 16 hexadecimal digits
  bool has_state = false;       // nn::ModelSpec::has_state
  double flops_per_sample = 0;  // forward and backward: nn::ModelCost::step_flops
  std::int32_t ignored_label = data::kNoLabel;  // nn::LossSpec::ignore_index
};
Network network_of(const nn::ModelSpec& model, const std::string& path);

// The devices of a job, and the backend that moves data between them.
struct DevicePlan {
  std::string device = "cpu";   // cpu | cuda
  std::string backend = "shm";  // a name of comm_backends(); "none" for one device
  int threads_per_device = 1;
  // [device] OS processors: of replicas, then of servers. Devices share them where there are too
  // few. GPU workers have none when the servers are on CPU devices.
  std::vector<std::vector<int>> cores;
  std::vector<int> gpus;        // [device] CUDA's number of its GPU; devices on GPUs come first
  bool oversubscribed = false;  // devices share GPUs or, on CPU devices, cores

  bool is_on_gpu(int index) const { return static_cast<std::size_t>(index) < gpus.size(); }
};

// How far training has come, between two steps.
struct TrainingPosition {
  std::int64_t steps = 0;  // in all
  int epoch = 0;
  std::int64_t step = 0;  // of that epoch, the next one
};

struct TrainingJob : DevicePlan {
  RunOptions options;  // the values that all runs of the command share
  RunCell cell;        // the values of this run
  std::string title;   // for people; stays with the supervisor
  std::int64_t per_device_batch = 0;
  double lr = 0;  // after --lr-scaling
  // Resolved. Empty where gradients are not all-reduced, or where the backend does not tell.
  std::string all_reduce;
  Network network;
  data::DatasetInfo dataset;
  double verification_tolerance = 0;
  std::int64_t steps_per_epoch = 0;  // after --steps
  // Inherited descriptors; -1: none.
  int dataset_fd = -1;
  int reference_fd = -1;     // ReferenceWeights; -1: no verification
  TrainingPosition resumed;  // of --resume-training
  int rehearsed_steps = 0;   // that a dry run takes, to tell how long a step is

  // Whether the servers of ps are on CPU devices and the workers on GPUs.
  bool has_cpu_servers() const {
    return cell.servers > 0 && options.device == "cuda" && options.server_device == "cpu";
  }
  bool synchronises_batch_norm() const { return options.sync_batch_norm && network.has_state; }
  bool is_reference() const { return cell.strategy == "reference"; }
  int verify_steps() const { return reference_fd < 0 ? 0 : options.verify_steps; }
  std::int64_t global_batch() const {  // of all passes of a step
    return per_device_batch * cell.world_size * cell.accumulation_steps;
  }
};

// "ddp on 2 devices", for messages.
std::string run_name(const TrainingJob& job);

// Whether data of GPUs moves through a backend of CPU devices (comm::make_staged).
bool is_staged(const TrainingJob& job);

// The samples that the run's shards see; the same on all its processes.
data::ShardedSampler make_sampler(const TrainingJob& job);

// How the run's batches are normalised.
data::Normalization normalization_of(const TrainingJob& job);

// The optimizer, with the run's learning rate.
ops::OptimizerOptions optimizer_of(const TrainingJob& job);

// The strategy's part of the specification.
StrategyConfig strategy_config(const TrainingJob& job);

// Whether a device may record the run's steps and replay them: not where several threads queue a
// step (dp), data passes through host memory, a step commands servers (ps) or takes several passes,
// faults strike single steps, or calls are traced or cost something while they are queued.
bool can_record_steps(const TrainingJob& job);

// Whether the run's devices do record its steps: CUDA devices do unless it is off.
bool records_steps(const TrainingJob& job);

// After how many steps the run's steps repeat what they do: a step between is no sample of them.
int cycle_steps(const TrainingJob& job);

// Whether the run's strategy computes something else than one device, by design.
bool is_approximate(const TrainingJob& job);

nlohmann::json dataset_json(const data::DatasetInfo& dataset);
data::DatasetInfo dataset_from_json(const nlohmann::json& json);
nlohmann::json to_json(const TrainingJob& job);
TrainingJob training_job_from_json(const nlohmann::json& json);

// The longest wait for peers, in seconds: --timeout, or longer than any run for 0 (never).
double wait_limit_s(double timeout_s);

// The timed steps of the run: from the resumed position to the end of the last epoch.
std::int64_t timed_steps(const TrainingJob& job);

// The number of steps that a worker of this run takes: verification, warm-up and training.
std::int64_t total_steps(const TrainingJob& job);

// Whether the planted fault concerns the run: it has such a rank and step, at the longest warm-up.
bool strikes(const Injection& injection, const TrainingJob& job);

// What a report says about a run before it is made: its options, and what they resolved to. Its key
// among the runs of an earlier report is made from it.
report::Run planned_run(const TrainingJob& job);

}  // namespace ddpbench::bench
