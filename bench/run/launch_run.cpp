// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/launch_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "bench/host/host_limits.h"
#include "bench/host/interrupt.h"
#include "bench/rank/rank_main.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// The job's description as text, in memory that a child inherits.
SharedMemory job_memory(const nlohmann::json& job) {
  const std::string text = job.dump();
  SharedMemory memory = SharedMemory::create("ddpbench-run", text.size() + 1);
  std::memcpy(memory.view().data, text.data(), text.size());
  return memory;
}

// Counts the phases and calls of a replica's traced steps. Per micro-batch, a layer runs at most
// twice forward (with a reorder) and four times backward (with a sum, and an output that is
// computed again). Micro-batches have at least 4 samples. A layer may exchange statistics in each
// direction.
std::size_t trace_capacity(const TrainingJob& job, const nn::ModelSpec& model) {
  const std::size_t most_calls = 6 * model.layers.size();
  const std::size_t micro_batches = 1 + static_cast<std::size_t>(job.per_device_batch) / 4;
  return static_cast<std::size_t>(job.options.trace_steps) *
         (2 * kPhaseCount + 2 * model.layers.size() + most_calls * micro_batches);
}

// The most replicas that one rank has.
std::size_t most_replicas(const TrainingJob& job) {
  std::size_t most = 1;
  for (const RankPlan& plan : plan_strategy(strategy_config(job)).ranks) {
    most = std::max(most, plan.replicas.size());
  }
  return most;
}

// A process takes this much for itself before its device has anything: libraries, stacks, heap.
constexpr std::uint64_t kProcessBytes = 16 * kMiB;

void check_process_memory(int processes) {
  const std::uint64_t needed = kProcessBytes * static_cast<std::uint64_t>(processes);
  const std::uint64_t available = memory_limit(read_host_limits()).bytes;
  if (needed <= available) return;
  throw ConfigError(fmt::format(
      "{} processes need at least {} bytes of memory for themselves, and {} are available; use "
      "fewer devices (--gpus) or servers (--servers)",
      processes, needed, available));
}

}  // namespace

int failure_exit_code(const launch::RankError& error) {
  const int code = error.exit_code;
  return code == 2 || code == 3 || code == 5 ? code : 4;
}

launch::ChannelLayout channel_layout(const TrainingJob& job, const nn::ModelSpec& model) {
  launch::ChannelLayout layout;
  layout.ranks = static_cast<int>(plan_strategy(strategy_config(job)).ranks.size());
  const auto steps = static_cast<std::size_t>(job.options.epochs * job.steps_per_epoch);
  layout.step_capacity = job.is_reference() ? 0 : steps;
  // ddp has at most one bucket per parameter tensor, and a layer at most two tensors. ps has one
  // shard per server.
  const std::size_t buckets =
      std::max(2 * model.layers.size(), 2 * static_cast<std::size_t>(job.cell.servers));
  layout.bucket_capacity = job.options.observe ? layout.step_capacity * buckets : 0;
  const std::size_t replicas = most_replicas(job);
  if (job.options.observe) layout.replica_capacity = layout.step_capacity * (replicas - 1);
  if (!job.options.trace_path.empty() && !job.is_reference()) {
    layout.trace_capacity = replicas * trace_capacity(job, model);
  }
  return layout;
}

launch::SuperviseResult launch_job(const std::string& kind, nlohmann::json description,
                                   const JobRanks& ranks, int threads_per_device,
                                   const std::vector<int>& inherited_fds,
                                   launch::RankChannels& channels,
                                   const launch::SuperviseOptions& supervise) {
  launch::LaunchSpec launch;
  launch.ranks = ranks.ranks;
  launch.ranks_per_process = ranks.per_process;
  check_process_memory(launch.processes());
  const SharedMemory text = job_memory({{"kind", kind},
                                        {"channel_fd", channels.fd()},
                                        {"ranks_per_process", ranks.per_process},
                                        {"description", std::move(description)}});
  launch.threads_per_device = threads_per_device;
  launch.environment[kJobFdVariable] = std::to_string(text.fd());
  launch.inherited_fds = {text.fd(), channels.fd()};
  launch.inherited_fds.insert(launch.inherited_fds.end(), inherited_fds.begin(),
                              inherited_fds.end());
  const MemoryKills before = read_memory_kills();
  launch::SuperviseResult result = launch::run_ranks(launch, channels, supervise);
  note_memory_kill(before, result);
  return result;
}

void note_memory_kill(const MemoryKills& before, launch::SuperviseResult& result) {
  if (!result.failure || result.failure->signal != SIGKILL) return;
  const std::string words = memory_kill_words(before, read_memory_kills());
  if (!words.empty()) result.failure->error.message += "; " + words;
}

launch::SuperviseResult launch_run(const TrainingJob& job, launch::RankChannels& channels,
                                   Progress& progress, std::function<bool()> interrupted) {
  std::vector<int> fds = {job.dataset_fd};
  if (job.reference_fd >= 0) fds.push_back(job.reference_fd);
  launch::SuperviseOptions supervise;
  supervise.timeout_s = job.options.timeout_s;
  supervise.interrupted = std::move(interrupted);
  supervise.progress = [&](const launch::RankChannels& all) { progress.update(all); };
  progress.begin(job, job.title);
  const JobRanks ranks{channels.layout().ranks,
                       plan_strategy(strategy_config(job)).ranks_per_process};
  auto result = launch_job(kTrainingKind, to_json(job), ranks, job.options.threads_per_device, fds,
                           channels, supervise);
  progress.end();
  return result;
}

}  // namespace ddpbench::bench
