// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_main.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "bench/comm/comm_rank.h"
#include "bench/comm/comm_spec.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_session.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

int descriptor(const char* text) {
  int fd = -1;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), fd);
  if (error != std::errc{} || *end != '\0' || fd < 0) {
    throw ConfigError(fmt::format("{}='{}' is not a descriptor", kRunFdVariable, text));
  }
  return fd;
}

nlohmann::json read_spec(int fd) {
  const SharedMemory memory = SharedMemory::adopt(fd);
  const auto* text = reinterpret_cast<const char*>(memory.view().data);
  const std::size_t length = ::strnlen(text, memory.view().bytes);
  return nlohmann::json::parse(text, text + length);
}

// What the process was started for: one rank of a training run, or of `ddpbench comm`.
struct Job {
  explicit Job(const nlohmann::json& spec) {
    if (is_comm_spec(spec)) {
      comm = comm_spec_from_json(spec);
    } else {
      training = run_spec_from_json(spec);
    }
  }
  int channel_fd() const { return comm ? comm->channel_fd : training.channel_fd; }

  RunSpec training;
  std::optional<CommSpec> comm;
};

void run_rank(const RunSpec& spec, const launch::RankEnvironment& environment,
              launch::RankWriter& writer, bool& left_behind) {
  const SharedMemory dataset = SharedMemory::adopt(spec.dataset_fd);
  std::optional<ReferenceWeights> reference;
  if (spec.reference_fd >= 0) reference = ReferenceWeights::adopt(spec.reference_fd);
  std::shared_ptr<comm::Store> store;
  if (environment.world_size > 1) {
    store = comm::connect_tcp_store({.host = environment.master_address,
                                     .port = environment.master_port,
                                     .secret = environment.secret,
                                     .timeout_s = wait_limit_s(spec.options)});
  }
  RankInputs inputs;
  inputs.rank = environment.rank;
  inputs.store = store.get();
  inputs.decoded = dataset.view().as<const std::byte>();
  if (reference && spec.is_reference()) inputs.reference_out = &*reference;
  if (reference && !spec.is_reference() && spec.verify_steps() > 0) inputs.reference = &*reference;
  run_session(
      std::make_unique<RankSession>(spec, inputs, writer),
      [](RankSession& session) { session.run(); }, left_behind);
}

}  // namespace

int report_error(launch::RankWriter& writer, const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const auto* of_peers = dynamic_cast<const CommError*>(&error);
  const launch::RankError record{
      .kind = known != nullptr ? known->kind() : "internal",
      .message = error.what(),
      .operation = of_peers != nullptr ? std::string(of_peers->operation()) : std::string(),
      .exit_code = known != nullptr ? known->exit_code() : 1};
  writer.error(record);
  writer.state(launch::RankState::failed);
  return record.exit_code;
}

int rank_main(const launch::GetVariable& get_variable) {
  launch::RankWriter writer;
  try {
    const auto environment = launch::read_rank_environment(get_variable);
    if (!environment) throw ConfigError("a rank was started without RANK and WORLD_SIZE");
    const Job job(read_spec(descriptor(get_variable(kRunFdVariable))));
    launch::RankChannels channels = launch::RankChannels::adopt(job.channel_fd());
    writer = channels.writer(environment->rank);
    bool left_behind = false;
    try {
      if (job.comm) {
        run_comm_ranks(*job.comm, *environment, channels);
      } else {
        run_rank(job.training, *environment, writer, left_behind);
      }
      return 0;
    } catch (const std::exception& error) {
      const int exit_code = report_error(writer, error);
      if (left_behind || leaves_thread_behind(error)) end_process(exit_code);
      return exit_code;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "ddpbench: {}\n", error.what());
    return 1;
  }
}

}  // namespace ddpbench::bench
