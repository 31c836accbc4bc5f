// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_result.h"

#include "base/error.h"
#include "base/json_members.h"

namespace ddpbench::report {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SampleRange, median, min, max)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuTelemetry, samples, interval_s, utilization_ratio,
                                   sm_clock_mhz, memory_clock_mhz, power_w, temperature_celsius,
                                   clock_event_ratios)

}  // namespace ddpbench::report

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EpochResult, epoch, begin_s, end_s, samples, loss_sum, correct,
                                   counted, test_samples, test_correct, test_counted)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceResult, replica, role, device, model, cores, peak_bytes,
                                   by_category_bytes, gpu_telemetry, driver_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VerificationResult, max_relative_error, tolerance, worst_tensor,
                                   worst_step, steps, vague_share, diverged, weights_hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResult, host, devices, parameters, all_reduce, verification,
                                   verify_s, warmup_s, train_s, evaluate_s, warmup_steps,
                                   warmup_steady, epochs, calls)

std::string encoded(const RankResult& result) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(result), bytes);
  return bytes;
}

RankResult decoded_rank_result(const std::string& bytes) {
  if (bytes.empty()) return {};
  try {
    return nlohmann::json::from_cbor(bytes).get<RankResult>();
  } catch (const nlohmann::json::exception& error) {
    throw InternalError(fmt::format("a rank has damaged its result: {}", error.what()));
  }
}

}  // namespace ddpbench::bench
