// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/largest_fit.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/interrupt.h"
#include "bench/plan/fit_command.h"
#include "bench/run/batch_search.h"
#include "bench/run/fit_memory.h"
#include "bench/run/launch_run.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// A search takes ten plans or so. Those of the largest networks take seconds each.
constexpr double kSearchLimitS = 60;

// Servers on CPU devices beside GPUs count against the host's memory.
bool is_of_host(const TrainingJob& job, int rank) {
  const std::vector<RankPlan> ranks = plan_strategy(strategy_config(job)).ranks;
  return job.has_cpu_servers() && ranks.at(static_cast<std::size_t>(rank)).role == Role::server;
}

std::optional<FitRow> plan_batches(TrainingJob job, const FoundFree& found) {
  job.options.last_batch = "pad";  // batches may be larger than the data set
  auto channels = launch::RankChannels::create({});
  const double begin_s = steady_s();
  launch::SuperviseOptions supervise;
  supervise.timeout_s = job.options.timeout_s;
  supervise.interrupted = [begin_s] {
    return interrupt_requested() || steady_s() - begin_s > kSearchLimitS;
  };
  const launch::SuperviseResult result =
      launch_job(kFitKind, fit_description({job}, found), {}, job.options.threads_per_device, {},
                 channels, supervise);
  if (result.interrupted || result.failure) return std::nullopt;
  return fit_result(channels.result(0)).rows.at(0);
}

// "--batch-size=32", or "--global-batch-size=64" where that is what the user chooses.
std::string batch_option(const TrainingJob& job, std::int64_t per_device) {
  if (!job.cell.is_strong()) return fmt::format("--batch-size={}", per_device);
  return fmt::format("--global-batch-size={}", per_device * job.cell.world_size);
}

}  // namespace

std::string largest_fit_words(const TrainingJob& job, const FitRow& row) {
  if (row.batch >= job.per_device_batch) return {};
  const std::string end =
      fmt::format("ended by {}, mostly {}", row.ended_by, largest_category(row.by_category));
  if (row.batch == 0) {
    return fmt::format("no batch fits, not even {} ({})", batch_option(job, row.smallest), end);
  }
  const std::int64_t step = kBatchStep * (job.cell.is_strong() ? job.cell.world_size : 1);
  return fmt::format("the largest that fits is {}{} ({})", batch_option(job, row.batch),
                     row.batch < kBatchStep ? "" : fmt::format(", in steps of {}", step), end);
}

std::string find_largest_fit(const TrainingJob& job, const launch::RunFailure& failure) {
  if (!failure.error.free_bytes) return {};
  std::optional<FitRow> row;
  try {
    row = plan_batches(job, {*failure.error.free_bytes, is_of_host(job, failure.rank)});
  } catch (const Error&) {
    // The process could not be started. The message of the run counts.
  }
  if (interrupt_requested()) return {};
  return row ? largest_fit_words(job, *row) : fit_advice(job, std::nullopt);
}

}  // namespace ddpbench::bench
