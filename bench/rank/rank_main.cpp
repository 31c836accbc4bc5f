// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/exhausted.h"
#include "bench/host/terminal.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_error.h"
#include "bench/rank/rank_session.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/process_state.h"

namespace ddpbench::bench {
namespace {

int descriptor(const char* text) {
  int fd = -1;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), fd);
  if (error != std::errc{} || *end != '\0' || fd < 0) {
    throw ConfigError(fmt::format("{}='{}' is not a descriptor", kJobFdVariable, text));
  }
  return fd;
}

nlohmann::json read_job(int fd) {
  const SharedMemory memory = SharedMemory::adopt(fd);
  const auto* text = reinterpret_cast<const char*>(memory.view().data);
  const std::size_t length = ::strnlen(text, memory.view().bytes);
  return nlohmann::json::parse(text, text + length);
}

const RankJob& find_job(const RankJobs& jobs, const std::string& kind) {
  const auto found = jobs.find(kind);
  if (found == jobs.end()) throw InternalError(fmt::format("a rank knows no job '{}'", kind));
  return found->second;
}

}  // namespace

void run_training_rank(const nlohmann::json& description,
                       const launch::RankEnvironment& environment, launch::RankChannels& channels,
                       bool& left_behind) {
  const TrainingJob job = training_job_from_json(description);
  launch::RankWriter writer = channels.writer(environment.rank);
  const SharedMemory dataset = SharedMemory::adopt(job.dataset_fd);
  std::optional<ReferenceWeights> reference;
  if (job.reference_fd >= 0) reference = ReferenceWeights::adopt(job.reference_fd);
  std::shared_ptr<comm::Store> store;
  if (environment.world_size > 1) {
    store = comm::connect_tcp_store({.host = environment.master_address,
                                     .port = environment.master_port,
                                     .secret = environment.secret,
                                     .timeout_s = wait_limit_s(job.options.timeout_s)});
  }
  RankInputs inputs;
  inputs.rank = environment.rank;
  inputs.store = store.get();
  inputs.decoded = dataset.view().as<const std::byte>();
  if (reference && job.is_reference()) inputs.reference_out = &*reference;
  if (reference && !job.is_reference() && job.verify_steps() > 0) inputs.reference = &*reference;
  run_session(
      std::make_unique<RankSession>(job, inputs, writer),
      [](RankSession& session) { session.run(); }, left_behind);
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
    const nlohmann::json job = read_job(descriptor(get_variable(kJobFdVariable)));
    launch::RankChannels channels = launch::RankChannels::adopt(job.at("channel_fd").get<int>());
    launch::RankWriter writer = channels.writer(environment->rank);
    bool left_behind = false;
    try {
      find_job(jobs, job.at("kind"))(job.at("description"), *environment, channels, left_behind);
      return 0;
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
