// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launch_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/interrupt.h"
#include "bench/rank_main.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench::bench {
namespace {

// The specification as text in memory that a child inherits.
SharedMemory spec_memory(const RunSpec& spec) {
  const std::string text = to_json(spec).dump();
  SharedMemory memory = SharedMemory::create("ddpbench-run", text.size() + 1);
  std::memcpy(memory.view().data, text.data(), text.size());
  return memory;
}

}  // namespace

int failure_exit_code(const launch::RankError& error) {
  const int code = error.exit_code;
  return code == 2 || code == 3 || code == 5 ? code : 4;
}

launch::ChannelLayout channel_layout(const RunSpec& spec, const nn::ModelSpec& model) {
  launch::ChannelLayout layout;
  layout.ranks = static_cast<int>(plan_strategy(strategy_config(spec)).processes.size());
  const auto steps = static_cast<std::size_t>(spec.options.epochs * spec.steps_per_epoch);
  layout.step_capacity = spec.is_reference() ? 0 : steps;
  // ddp has at most a bucket a parameter tensor, two of which a layer may have; ps a shard a
  // server.
  const std::size_t buckets =
      std::max(2 * model.layers.size(), 2 * static_cast<std::size_t>(spec.cell.servers));
  layout.bucket_capacity = spec.options.observe ? layout.step_capacity * buckets : 0;
  return layout;
}

launch::SuperviseResult launch_run(RunSpec spec, launch::RankChannels& channels,
                                   Progress& progress) {
  spec.channel_fd = channels.fd();
  const SharedMemory text = spec_memory(spec);
  launch::LaunchSpec launch;
  launch.ranks = channels.layout().ranks;
  launch.threads_per_device = spec.options.threads_per_device;
  launch.environment[kRunFdVariable] = std::to_string(text.fd());
  launch.inherited_fds = {text.fd(), spec.channel_fd, spec.dataset_fd};
  if (spec.reference_fd >= 0) launch.inherited_fds.push_back(spec.reference_fd);
  launch::SuperviseOptions supervise;
  supervise.timeout_s = spec.options.timeout_s;
  supervise.interrupted = interrupt_requested;
  supervise.progress = [&](const launch::RankChannels& all) { progress.update(all); };
  progress.begin(spec, spec.title);
  auto result = launch::run_ranks(launch, channels, supervise);
  progress.end();
  return result;
}

}  // namespace ddpbench::bench
