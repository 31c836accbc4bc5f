// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/exhausted.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_error.h"
#include "bench/rank/rank_session.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/launch/process_state.h"

namespace ddpbench::bench {
namespace {

int descriptor(const char* text) {
  const auto fd = number_in<int>(text);
  if (!fd || *fd < 0) {
    throw ConfigError(fmt::format("{}='{}' is not a descriptor", kJobFdVariable, text));
  }
  return *fd;
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
    const int first_rank = environment->rank * job.at("ranks_per_process").get<int>();
    launch::RankWriter writer = channels.writer(first_rank);
    bool left_behind = false;
    try {
      const int exit_code = find_job(jobs, job.at("kind"))(job.at("description"), *environment,
                                                           channels, left_behind);
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
