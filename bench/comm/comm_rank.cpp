// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/collective_rank.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "bench/host/host_limits.h"
#include "bench/plan/training_job.h"
#include "bench/rank/rank_main.h"

namespace ddpbench::bench {
namespace {

CollectiveRank connect(const CommJob& job, int rank, comm::Store& store, launch::RankWriter& writer,
                       const std::string& address) {
  writer.state(launch::RankState::setup);
  auto device = make_device(job.devices, rank);
  // A rank that computes nothing shares the cores better with Gloo's thread when nothing is bound.
  if (!comm_backend(job.devices.backend).has_threads) device->bind_calling_thread();
  WorldOptions options;
  options.address = address;
  options.timeout_s = wait_limit_s(job.timeout_s);
  options.thread_cores = job.devices.cores.at(static_cast<std::size_t>(rank));
  options.progress = [&writer] { writer.collective(); };
  options.all_reduce = comm::all_reduce_algorithm(job.asked_all_reduce);
  options.link = comm::parse_link(job.emulated_link);
  options.blocks = job.threads;
  auto world = connect_devices(
      device, [&] { return make_world(job.devices, store, rank, job.ranks, *device, options); });
  return {std::move(world), std::move(device), job.largest_bytes(), job.sharers(rank)};
}

// One rank's measurement of all rows of a world.
class CommMeasurement {
 public:
  // Collective. The calling thread leads the rank's device. `job` and `writer` outlive this.
  CommMeasurement(const CommJob& job, int rank, comm::Store& store, launch::RankWriter& writer,
                  const std::string& address)
      : job_(job), writer_(writer), rank_(connect(job, rank, store, writer, address)) {
    result_.host = host_name();
    result_.model = rank_.device().model();
  }
  // Collective. Leaves times and results in the rank's channel. When it throws, the others' waits
  // have been ended.
  void run();

 private:
  void measure_memory();
  void measure(std::size_t row);
  void take_times(std::size_t row);

  const CommJob& job_;
  launch::RankWriter& writer_;
  CollectiveRank rank_;
  CommRankResult result_;
  std::uint64_t steps_ = 0;
  int taken_ = 0;          // iterations of this row whose times are known, with the warm-up's
  std::int64_t late_ = 0;  // timed iterations of this row that were late
};

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

}  // namespace

void run_comm_ranks(const nlohmann::json& description, const launch::RankEnvironment& environment,
                    launch::RankChannels& channels) {
  const CommJob job = comm_job_from_json(description);
  const int count = job.threads ? job.ranks : 1;
  const RankPlace place = place_of_rank(environment, job.interface);
  prepare_rank(job.devices, environment.rank * count, place.network);
  const auto meet = rank_meeting(environment, count, wait_limit_s(job.timeout_s));
  run_ranks_of_process(environment.rank * count, count, channels,
                       [&](int rank, launch::RankWriter& writer) {
                         CommMeasurement(job, rank, *meet(), writer, place.address).run();
                       });
}

}  // namespace ddpbench::bench
