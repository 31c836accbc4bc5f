// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_rank.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.h"
#include "bench/host/environment_capture.h"
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

CommMeasurement::CommMeasurement(const CommJob& job, int rank,
                                 std::unique_ptr<comm::Communicator> world,
                                 std::unique_ptr<Device> device, launch::RankWriter& writer)
    : job_(job),
      writer_(writer),
      rank_(std::move(world), std::move(device), job.largest_bytes(), job.sharers(rank)) {
  result_.host = host_name();
  result_.model = rank_.device().model();
}

void CommMeasurement::run() {
  try {
    measure_memory();
    writer_.state(launch::RankState::training);
    for (std::size_t row = 0; row < job_.rows.size(); ++row) measure(row);
    writer_.state(launch::RankState::finished);
  } catch (const std::exception& error) {
    rank_.world().abort(error.what());  // spares the others the wait for a deadline
    throw;
  }
}

void CommMeasurement::measure_memory() {
  for (const std::size_t set : job_.working_sets) {
    for (const bool all_cores : {false, true}) {
      result_.bandwidth.push_back(measure_bandwidth(rank_, set, all_cores, job_.type));
    }
  }
  writer_.result(encoded(result_));
}

void CommMeasurement::measure(std::size_t row) {
  const CollectiveCase& collective = *find_collective(job_.rows[row].operation);
  const CollectiveMemory memory = rank_.memory(job_.rows[row].count, job_.type, job_.reduction);
  std::size_t wrong = rank_.verify(collective, memory);
  rank_.calls().begin_row();
  late_ = taken_ = 0;
  const int last = job_.warmup + job_.iterations - 1;
  for (int i = 0; i <= last; ++i) {
    writer_.begin_step(static_cast<std::uint32_t>(row), steps_++);
    rank_.calls().add(collective, memory);
    // Timed calls and warm-up calls are not queued together.
    if (rank_.calls().full() || i == last || i == job_.warmup - 1) take_times(row);
  }
  wrong += rank_.verify(collective, memory);
  result_.all_reduce = all_reduces_run(&rank_.world());
  result_.wrong.push_back(wrong);
  result_.late.push_back(late_);
  writer_.result(encoded(result_));
}

void CommMeasurement::take_times(std::size_t row) {
  for (const CallSpan& span : rank_.calls().finish()) {
    const int iteration = taken_++ - job_.warmup;
    if (iteration < 0) continue;
    late_ += span.late ? 1 : 0;
    launch::StepRecord record;
    record.epoch = static_cast<std::uint32_t>(row);
    record.step = static_cast<std::uint32_t>(iteration);
    record.begin_s = span.begin_s;
    record.end_s = span.end_s;
    writer_.append(record);
  }
}

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
