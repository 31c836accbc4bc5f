// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "bench/host/host_limits.h"
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

// A rank of this process, and how it ended. What it left behind may still use the writer.
struct OwnRank {
  launch::RankWriter writer;
  int exit_code = 0;
  bool only_noticed = false;  // it failed because of another rank
};

void run_rank(int rank, OwnRank& own, const RunRank& run) {
  try {
    run(rank, own.writer);
  } catch (const std::exception& error) {
    own.exit_code = report_error(own.writer, error);
    own.only_noticed = dynamic_cast<const CommError*>(&error) != nullptr;
  }
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

void run_ranks_of_process(int first, int count, launch::RankChannels& channels,
                          const RunRank& run) {
  std::vector<OwnRank> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back({.writer = channels.writer(first + i)});
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i) {
    OwnRank& own = ranks[static_cast<std::size_t>(i)];
    threads.emplace_back([&own, &run, rank = first + i] { run_rank(rank, own, run); });
  }
  run_rank(first, ranks[0], run);
  for (std::thread& thread : threads) thread.join();
  const auto blame = [](const OwnRank& own) {
    return own.exit_code == 0 ? 0 : own.only_noticed ? 1 : 2;
  };
  const OwnRank& cause = *std::ranges::max_element(ranks, {}, blame);
  if (cause.exit_code == 0) return;
  std::fflush(nullptr);
  std::_Exit(cause.exit_code);
}

void run_training_process(const nlohmann::json& description,
                          const launch::RankEnvironment& environment,
                          launch::RankChannels& channels) {
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
  const auto run = [&](int rank, launch::RankWriter& writer) {
    RankInputs inputs;
    inputs.rank = rank;
    inputs.store = connect();
    inputs.decoded = dataset.view().as<const std::byte>();
    inputs.interpreter = interpreter ? &*interpreter : nullptr;
    inputs.host = environment.host;
    inputs.address = place.address;
    // The first of each host but rank 0's does so.
    inputs.measures_clock = !inputs.host.empty() && environment.local_rank == 0 && rank != 0;
    if (reference && job.is_reference()) inputs.reference_out = &*reference;
    if (reference && !job.is_reference() && job.verify_steps() > 0) inputs.reference = &*reference;
    auto session = std::make_unique<RankSession>(job, inputs, writer);
    try {
      session->run();
    } catch (...) {
      static_cast<void>(session.release());  // what it waits for may never come
      throw;
    }
  };
  run_ranks_of_process(environment.rank * ranks, ranks, channels, run);
}

int rank_main(const RankJobs& jobs) {
  try {
    // The supervisor serves the store and ends who stalls. While it is stopped, nothing is late.
    comm::DeadlineClock::pauses().hold_while(
        [supervisor = ::getppid()] { return launch::is_process_stopped(supervisor); });
    const auto environment = launch::read_rank_environment(launch::environment_variables());
    if (!environment) throw ConfigError("a rank was started without RANK and WORLD_SIZE");
    const nlohmann::json job = read_job(std::getenv(kJobFdVariable));
    launch::RankChannels channels = launch::RankChannels::adopt(job.at("channel_fd").get<int>());
    const int first_rank = environment->rank * job.at("ranks_per_process").get<int>();
    try {
      jobs.at(job.at("kind"))(job.at("description"), *environment, channels);
      return 0;
    } catch (const std::exception& error) {
      launch::RankWriter writer = channels.writer(first_rank);
      return report_error(writer, error);
    }
  } catch (const std::exception& error) {
    say_error("ddpbench: {}\n", error.what());
    return 1;
  }
}

}  // namespace ddpbench::bench
