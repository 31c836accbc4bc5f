// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/measure/replica_recorder.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_session.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/child_process.h"
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

class TrainingProcess {
 public:
  TrainingProcess(const nlohmann::json& description, const launch::RankEnvironment& environment,
                  launch::RankChannels& channels)
      : job_(training_job_from_json(description)),
        environment_(environment),
        channels_(channels),
        ranks_(plan_strategy(strategy_config(job_)).ranks_per_process),
        dataset_(SharedMemory::adopt(job_.dataset_fd)) {
    if (job_.reference_fd >= 0) reference_ = ReferenceWeights::adopt(job_.reference_fd);
    if (job_.options.emulate_gil_us > 0) interpreter_.emplace(job_.options.emulate_gil_us * 1e-6);
    // Ranks that are the whole world meet within the process.
    if (environment.world_size == 1 && ranks_ > 1) meeting_ = comm::make_local_store();
    prepare_rank(device_plan(job_), first_rank());
  }

  int run(bool& left_behind) {
    if (ranks_ > 1) return run_threads(left_behind);
    launch::RankWriter writer = channels_.writer(environment_.rank);
    run_rank(environment_.rank, writer, left_behind);
    return 0;
  }

 private:
  int first_rank() const { return environment_.rank * ranks_; }

  // Each rank tells its own error. Returns the exit code of one that caused the failure.
  int run_threads(bool& left_behind) {
    std::vector<ThreadEnd> ends(static_cast<std::size_t>(ranks_));
    std::vector<std::thread> threads;
    for (int i = 0; i < ranks_; ++i) {
      threads.emplace_back([this, rank = first_rank() + i,
                            &end = ends[static_cast<std::size_t>(i)]] { end = end_of(rank); });
    }
    for (std::thread& thread : threads) thread.join();
    left_behind = std::ranges::any_of(ends, &ThreadEnd::left_behind);
    const auto failed = [](const ThreadEnd& end) { return end.exit_code != 0; };
    const auto cause = std::ranges::find_if(
        ends, [&](const ThreadEnd& end) { return failed(end) && !end.only_noticed; });
    if (cause != ends.end()) return cause->exit_code;
    const auto first = std::ranges::find_if(ends, failed);
    return first == ends.end() ? 0 : first->exit_code;
  }

  ThreadEnd end_of(int rank) {
    ThreadEnd end;
    launch::RankWriter writer = channels_.writer(rank);
    try {
      run_rank(rank, writer, end.left_behind);
    } catch (const std::exception& error) {
      end.exit_code = report_error(writer, error);
      end.only_noticed = dynamic_cast<const CommError*>(&error) != nullptr;
      end.left_behind = end.left_behind || leaves_thread_behind(error);
    }
    return end;
  }

  void run_rank(int rank, launch::RankWriter& writer, bool& left_behind) {
    const std::shared_ptr<comm::Store> store = connect();
    RankInputs inputs;
    inputs.rank = rank;
    inputs.store = store.get();
    inputs.decoded = dataset_.view().as<const std::byte>();
    inputs.interpreter = interpreter_ ? &*interpreter_ : nullptr;
    if (reference_ && job_.is_reference()) inputs.reference_out = &*reference_;
    if (reference_ && !job_.is_reference() && job_.verify_steps() > 0)
      inputs.reference = &*reference_;
    run_session(
        std::make_unique<RankSession>(job_, inputs, writer),
        [](RankSession& session) { session.run(); }, left_behind);
  }

  // A rank's own connection: a call of one rank may wait for another. Null for a rank that is
  // alone.
  std::shared_ptr<comm::Store> connect() const {
    if (environment_.world_size == 1) return meeting_;
    return comm::connect_tcp_store({.host = environment_.master_address,
                                    .port = environment_.master_port,
                                    .secret = environment_.secret,
                                    .timeout_s = wait_limit_s(job_.options.timeout_s)});
  }

  const TrainingJob job_;
  const launch::RankEnvironment& environment_;
  launch::RankChannels& channels_;
  const int ranks_;
  const SharedMemory dataset_;
  std::optional<ReferenceWeights> reference_;
  std::optional<InterpreterLock> interpreter_;  // of all ranks
  std::shared_ptr<comm::Store> meeting_;
};

}  // namespace

int run_training_process(const nlohmann::json& description,
                         const launch::RankEnvironment& environment, launch::RankChannels& channels,
                         bool& left_behind) {
  return TrainingProcess(description, environment, channels).run(left_behind);
}

int rank_main(const launch::GetVariable& get_variable, const RankJobs& jobs) {
  try {
    // The supervisor serves the store and ends who stalls. While it is stopped, nothing is late.
    comm::DeadlineClock::pauses().hold_while([supervisor = ::getppid()] {
      const auto state = launch::read_process_state(supervisor);
      return state && state->is_stopped();
    });
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
