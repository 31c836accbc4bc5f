// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "bench/host/host_network.h"
#include "bench/host/terminal.h"
#include "bench/measure/replica_recorder.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_session.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/grace_times.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

nlohmann::json read_job(const char* descriptor) {
  const auto fd = number_in<int>(descriptor);
  if (!fd || *fd < 0) {
    throw ConfigError(fmt::format("{}='{}' is not a descriptor", kJobFdVariable, descriptor));
  }
  const SharedMemory memory = SharedMemory::adopt(*fd);
  const auto* text = reinterpret_cast<const char*>(memory.view().data);
  return nlohmann::json::parse(text, text + ::strnlen(text, memory.view().bytes));
}

// How a rank that shares its process ended.
struct ThreadEnd {
  int exit_code = 0;
  bool only_noticed = false;  // it failed because of another rank
  bool left_behind = false;
};

ThreadEnd end_of(int rank, launch::RankChannels& channels, const RunRank& run) {
  ThreadEnd end;
  launch::RankWriter writer = channels.writer(rank);
  try {
    run(rank, writer, end.left_behind);
  } catch (const std::exception& error) {
    end.exit_code = report_error(writer, error);
    end.only_noticed = dynamic_cast<const CommError*>(&error) != nullptr;
    end.left_behind = end.left_behind || leaves_thread_behind(error);
  }
  return end;
}

}  // namespace

RankPlace place_of_rank(const launch::RankEnvironment& environment, const std::string& interface) {
  RankPlace place;
  place.network.ranks = environment.world_size;
  place.network.on_one_host = environment.host.empty() && environment.world_size > 1;
  if (environment.host.empty()) return place;
  place.network.interface = interface.empty() ? "" : find_interface(interface).name;
  place.address = interface.empty()
                      ? address_towards(environment.master_address, launch::kHostName_s)
                      : find_interface(interface).address;
  return place;
}

ConnectRank rank_meeting(const launch::RankEnvironment& environment, int ranks, double timeout_s) {
  if (environment.world_size == 1) {
    return [own = ranks > 1 ? comm::make_local_store() : nullptr] { return own; };
  }
  return [&environment, timeout_s] {
    return comm::connect_tcp_store({.host = environment.master_address,
                                    .port = environment.master_port,
                                    .secret = environment.secret,
                                    .timeout_s = timeout_s});
  };
}

int run_ranks_of_process(int first, int count, launch::RankChannels& channels, const RunRank& run,
                         bool& left_behind) {
  if (count == 1) {
    launch::RankWriter writer = channels.writer(first);
    run(first, writer, left_behind);
    return 0;
  }
  std::vector<ThreadEnd> ends(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    threads.emplace_back([&, i] { ends[i] = end_of(first + static_cast<int>(i), channels, run); });
  }
  for (std::thread& thread : threads) thread.join();
  left_behind = std::ranges::any_of(ends, &ThreadEnd::left_behind);
  std::ranges::stable_sort(ends, {}, &ThreadEnd::only_noticed);
  const auto cause = std::ranges::find_if(ends, &ThreadEnd::exit_code);
  return cause == ends.end() ? 0 : cause->exit_code;
}

int run_training_process(const nlohmann::json& description,
                         const launch::RankEnvironment& environment, launch::RankChannels& channels,
                         bool& left_behind) {
  const TrainingJob job = training_job_from_json(description);
  const int ranks = plan_strategy(strategy_config(job)).ranks_per_process;
  const SharedMemory dataset = SharedMemory::adopt(job.dataset_fd);
  std::optional<ReferenceWeights> reference;
  if (job.reference_fd >= 0) reference = ReferenceWeights::adopt(job.reference_fd);
  std::optional<InterpreterLock> interpreter;  // of all ranks
  if (job.options.emulate_gil_us > 0) interpreter.emplace(job.options.emulate_gil_us * 1e-6);
  const auto connect = rank_meeting(environment, ranks, wait_limit_s(job.options.timeout_s));
  const RankPlace place = place_of_rank(environment, job.options.interface);
  prepare_rank(job, environment.rank * ranks, place.network);
  const auto run = [&](int rank, launch::RankWriter& writer, bool& rank_left_behind) {
    const std::shared_ptr<comm::Store> store = connect();
    RankInputs inputs;
    inputs.rank = rank;
    inputs.store = store.get();
    inputs.decoded = dataset.view().as<const std::byte>();
    inputs.interpreter = interpreter ? &*interpreter : nullptr;
    inputs.host = environment.host;
    inputs.address = place.address;
    // The first of each host but rank 0's measures its clock.
    if (!inputs.host.empty() && environment.local_rank == 0 && rank != 0) {
      inputs.read_clock = [store] { return bench::read_clock(*store); };
    }
    if (reference && job.is_reference()) inputs.reference_out = &*reference;
    if (reference && !job.is_reference() && job.verify_steps() > 0) inputs.reference = &*reference;
    run_session(
        std::make_unique<RankSession>(job, inputs, writer),
        [](RankSession& session) { session.run(); }, rank_left_behind);
  };
  return run_ranks_of_process(environment.rank * ranks, ranks, channels, run, left_behind);
}

int rank_main(const launch::GetVariable& get_variable, const RankJobs& jobs) {
  try {
    // The supervisor serves the store and ends who stalls. While it is stopped, nothing is late.
    comm::DeadlineClock::pauses().hold_while(
        [supervisor = ::getppid()] { return launch::is_process_stopped(supervisor); });
    const auto environment = launch::read_rank_environment(get_variable);
    if (!environment) throw ConfigError("a rank was started without RANK and WORLD_SIZE");
    const nlohmann::json job = read_job(get_variable(kJobFdVariable));
    launch::RankChannels channels = launch::RankChannels::adopt(job.at("channel_fd").get<int>());
    const int first_rank = environment->rank * job.at("ranks_per_process").get<int>();
    launch::RankWriter writer = channels.writer(first_rank);
    bool left_behind = false;
    try {
      const RankJob& run = jobs.at(job.at("kind"));
      const int exit_code = run(job.at("description"), *environment, channels, left_behind);
      if (left_behind) end_process(exit_code);
      return exit_code;
    } catch (const std::exception& error) {
      const int exit_code = report_error(writer, error);
      if (left_behind || leaves_thread_behind(error)) end_process(exit_code);
      return exit_code;
    }
  } catch (const std::exception& error) {
    say_error("ddpbench: {}\n", error.what());
    return 1;
  }
}

}  // namespace ddpbench::bench
