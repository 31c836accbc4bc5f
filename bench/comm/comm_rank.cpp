// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_rank.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "bench/comm/comm_job.h"
#include "bench/comm/comm_measurement.h"
#include "bench/plan/training_job.h"
#include "bench/rank/rank_devices.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::bench {
namespace {

void run_process(const CommJob& job, const launch::RankEnvironment& environment,
                 launch::RankWriter writer) {
  writer.state(launch::RankState::setup);
  prepare_rank(job.devices, environment.rank);
  const auto store = environment.world_size == 1
                         ? comm::make_local_store()
                         : comm::connect_tcp_store({.host = environment.master_address,
                                                    .port = environment.master_port,
                                                    .secret = environment.secret,
                                                    .timeout_s = wait_limit_s(job.timeout_s)});
  auto device = make_device(job.devices, environment.rank);
  device->bind_calling_thread();
  const auto place = static_cast<std::size_t>(environment.rank);
  const WorldOptions options{.timeout_s = wait_limit_s(job.timeout_s),
                             .thread_cores = job.devices.cores.at(place),
                             .progress = [&writer] { writer.collective(); },
                             .joining = [&writer] { writer.state(launch::RankState::setup); },
                             .all_reduce = comm::all_reduce_algorithm(job.asked_all_reduce)};
  auto world = connect_devices(device, [&] {
    return make_world(job.devices, *store, environment.rank, job.ranks, *device, options);
  });
  CommMeasurement(job, environment.rank, std::move(world), std::move(device), writer).run();
}

// Whether this error only reports another rank's.
bool only_noticed(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommError&) {
    return true;
  } catch (...) {
    return false;
  }
}

void run_threads(const CommJob& job, launch::RankChannels& channels) {
  prepare_rank(job.devices, 0);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> pointers;
  for (int r = 0; r < job.ranks; ++r) {
    devices.push_back(make_device(job.devices, r));
    pointers.push_back(devices.back().get());
  }
  launch::RankWriter process = channels.writer(0);
  const WorldOptions options{.timeout_s = wait_limit_s(job.timeout_s),
                             .thread_cores = {},
                             .progress = {},
                             .joining = [&process] { process.state(launch::RankState::setup); },
                             .all_reduce = comm::all_reduce_algorithm(job.asked_all_reduce)};
  auto worlds =
      connect_devices(devices, [&] { return make_thread_world(job.devices, pointers, options); });
  std::vector<std::exception_ptr> errors(worlds.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < job.ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    // The communicator knows the device, so it is destroyed first.
    threads.emplace_back([&job, r, &error = errors[rank], device = std::move(devices[rank]),
                          world = std::move(worlds[rank]), writer = channels.writer(r)]() mutable {
      try {
        writer.state(launch::RankState::setup);
        device->bind_calling_thread();
        CommMeasurement(job, r, std::move(world), std::move(device), writer).run();
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The cause is thrown before its consequences.
  for (const bool noticed : {false, true}) {
    for (const std::exception_ptr& error : errors) {
      if (error && only_noticed(error) == noticed) std::rethrow_exception(error);
    }
  }
}

}  // namespace

int run_comm_ranks(const nlohmann::json& description, const launch::RankEnvironment& environment,
                   launch::RankChannels& channels, bool&) {
  const CommJob job = comm_job_from_json(description);
  if (job.threads) {
    run_threads(job, channels);
  } else {
    run_process(job, environment, channels.writer(environment.rank));
  }
  return 0;
}

}  // namespace ddpbench::bench
