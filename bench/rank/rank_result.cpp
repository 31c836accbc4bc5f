// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_result.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json_members.h"

namespace ddpbench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServedPushes, updates, dropped, staleness)

}  // namespace ddpbench

namespace ddpbench::report {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClassCount, hits, labels, predicted)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SampleRange, median, min, max)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuTelemetry, samples, interval_s, utilization_ratio,
                                   sm_clock_mhz, memory_clock_mhz, power_w, temperature_celsius,
                                   clock_event_ratios)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LossScaling, scale, skipped_updates)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceRow, rank, role, device, cores, peak_bytes,
                                   by_category_bytes, gpu_telemetry, driver_bytes)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointRow, step, bytes, held_s, write_s)

}  // namespace ddpbench::report

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EpochResult, epoch, begin_s, end_s, saving_s, samples, loss_sum,
                                   correct, counted, test_samples, test_loss_sum, test_correct,
                                   test_counted, test_classes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LossPoint, step, loss_sum, correct, counted)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VerificationResult, max_relative_error, tolerance, worst_tensor,
                                   worst_step, steps, vague_share, divergence, diverged,
                                   weights_hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkTraffic, from, to, messages, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClockReading, at_s, offset_s, bound_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResult, host, devices, device_model, peak_rss_bytes,
                                   parameters, traffic, pushes, loss_scaling, all_reduce,
                                   verification, verify_s, warmup_s, train_s, evaluate_s, load_s,
                                   save_s, checkpoints, warmup_steps, warmup_steady, epochs,
                                   progress, diverged_step, diverged_tensor, calls, clock)

std::string encoded(const RankResult& result) { return result_bytes(result); }

RankResult decoded_rank_result(const std::string& bytes) {
  return result_of_bytes<RankResult>(bytes);
}

ClockReading read_clock(comm::Store& store) {
  constexpr int kRoundTrips = 50, kFewestRoundTrips = 3;
  constexpr double kLongest_s = 0.5, kNanosecond_s = 1e-9;
  const double begin_s = steady_s();
  std::int64_t shortest_ns = INT64_MAX;
  ClockReading reading;
  for (int i = 0; i < kRoundTrips; ++i) {
    if (i >= kFewestRoundTrips && steady_s() - begin_s > kLongest_s) break;
    const std::int64_t asked_ns = comm::own_clock_ns();
    const std::int64_t told_ns = store.clock_ns();
    const std::int64_t heard_ns = comm::own_clock_ns();
    if (heard_ns - asked_ns >= shortest_ns) continue;
    shortest_ns = heard_ns - asked_ns;
    // Differences of whole numbers: clocks of hosts that run for long have no digits to spare.
    const std::int64_t half_ns = shortest_ns / 2;
    reading.at_s = static_cast<double>(asked_ns + half_ns) * kNanosecond_s;
    reading.offset_s = static_cast<double>(asked_ns + half_ns - told_ns) * kNanosecond_s;
    reading.bound_s = static_cast<double>(half_ns + 1) * kNanosecond_s;
  }
  return reading;
}

int report_error(launch::RankWriter& writer, const std::exception& error) {
  const Failure failure = failure_of(error);
  const auto* of_peers = dynamic_cast<const CommError*>(&error);
  const launch::RankError record{
      .kind = failure.kind,
      .message = failure.message,
      .operation = of_peers != nullptr ? std::string(of_peers->operation()) : std::string(),
      .exit_code = failure.exit_code};
  writer.error(record);
  writer.state(launch::RankState::failed);
  return record.exit_code;
}

}  // namespace ddpbench::bench
