// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_rank.h"

#include <exception>
#include <thread>

#include "bench/comm/collective_rank.h"
#include "bench/comm/memory_bandwidth.h"
#include "bench/environment_capture.h"
#include "bench/run_spec.h"
#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/error.h"
#include "parallel/comm/ring.h"
#include "parallel/comm/store.h"

namespace ddpbench::bench {
namespace {

std::unique_ptr<Device> device_of(const CommSpec& spec, int rank) {
  return make_cpu_device({rank, 1, spec.cores.at(static_cast<std::size_t>(rank))});
}

class CommRank {
 public:
  CommRank(const CommSpec& spec, std::unique_ptr<comm::Communicator> world,
           launch::RankWriter& writer)
      : spec_(spec),
        writer_(writer),
        rank_number_(world->rank()),
        rank_(std::move(world), device_of(spec, rank_number_), spec.largest_bytes()) {
    result_.host = host_name();
    result_.model = rank_.device().model();
  }

  void run() {
    try {
      measure_memory();
      writer_.state(launch::RankState::training);
      for (std::size_t row = 0; row < spec_.rows.size(); ++row) measure(row);
      writer_.state(launch::RankState::finished);
    } catch (const std::exception& error) {
      rank_.world().abort(error.what());  // the others need not wait for a deadline
      throw;
    }
  }

 private:
  void measure_memory() {
    for (const std::size_t set : spec_.working_sets) {
      for (const bool all_cores : {false, true}) {
        result_.bandwidth.push_back(measure_bandwidth(rank_, set, all_cores, spec_.type));
      }
    }
    writer_.result(to_json_text(result_));
  }

  void measure(std::size_t row) {
    const CollectiveCase& collective = *find_collective(spec_.rows[row].operation);
    const CollectiveMemory memory =
        rank_.memory(spec_.rows[row].count, spec_.type, spec_.reduction);
    std::size_t wrong = rank_.verify(collective, memory);
    for (int i = 0; i < spec_.warmup + spec_.iterations; ++i) {
      writer_.begin_step(static_cast<std::uint32_t>(row), steps_++);
      const CollectiveRank::Span span = rank_.run(collective, memory);
      if (i < spec_.warmup) continue;
      launch::StepRecord record;
      record.epoch = static_cast<std::uint32_t>(row);
      record.step = static_cast<std::uint32_t>(i - spec_.warmup);
      record.begin_s = span.begin_s;
      record.end_s = span.end_s;
      writer_.append(record);
    }
    wrong += rank_.verify(collective, memory);
    result_.wrong.push_back(wrong);
    writer_.result(to_json_text(result_));
  }

  const CommSpec& spec_;
  launch::RankWriter& writer_;
  const int rank_number_;
  CollectiveRank rank_;
  CommRankResult result_;
  std::uint64_t steps_ = 0;
};

comm::RingOptions ring_options(const CommSpec& spec) {
  comm::RingOptions options;
  options.timeout_s = wait_limit_s(spec.timeout_s);
  return options;
}

void run_process(const CommSpec& spec, const launch::RankEnvironment& environment,
                 launch::RankWriter writer) {
  writer.state(launch::RankState::setup);
  const auto store = comm::connect_tcp_store({.host = environment.master_address,
                                              .port = environment.master_port,
                                              .secret = environment.secret,
                                              .timeout_s = wait_limit_s(spec.timeout_s)});
  comm::RingOptions options = ring_options(spec);
  options.thread_cores = spec.cores.at(static_cast<std::size_t>(environment.rank));
  options.progress = [&writer] { writer.collective(); };
  CommRank(spec, comm::make_ring(*store, environment.rank, spec.ranks, options), writer).run();
}

// Whether this error only tells of another rank's.
bool only_noticed(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommError&) {
    return true;
  } catch (...) {
    return false;
  }
}

void run_threads(const CommSpec& spec, launch::RankChannels& channels) {
  auto worlds = comm::make_thread_ring(spec.ranks, ring_options(spec));
  std::vector<std::exception_ptr> errors(worlds.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < spec.ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    threads.emplace_back([&spec, &error = errors[rank], world = std::move(worlds[rank]),
                          writer = channels.writer(r)]() mutable {
      try {
        writer.state(launch::RankState::setup);
        CommRank(spec, std::move(world), writer).run();
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The cause before its consequences.
  for (const bool noticed : {false, true}) {
    for (const std::exception_ptr& error : errors) {
      if (error && only_noticed(error) == noticed) std::rethrow_exception(error);
    }
  }
}

}  // namespace

void run_comm_ranks(const CommSpec& spec, const launch::RankEnvironment& environment,
                    launch::RankChannels& channels) {
  if (spec.threads) {
    run_threads(spec, channels);
  } else {
    run_process(spec, environment, channels.writer(environment.rank));
  }
}

}  // namespace ddpbench::bench
