// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/collective_metrics.h"

#include "base/error.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {

CollectiveTraffic collective_traffic(const std::string& collective, int ranks, double bytes) {
  ensure(ranks >= 1, "{} of {} ranks", collective, ranks);
  const double all = ranks * bytes;
  // In place: results replace the contributions.
  if (collective == "all_reduce") return {all + all, all};
  if (collective == "reduce") return {all + bytes, all};
  if (collective == "broadcast") return {bytes + (all - bytes), all};
  // From one buffer to another.
  if (collective == "all_gather") return {bytes + all, bytes + all};
  if (collective == "reduce_scatter") return {all + bytes, all + bytes};
  if (collective == "scatter" || collective == "gather") return {2 * bytes, 2 * bytes};
  if (collective == "send_recv") return {all + all, all + all};
  if (collective == "barrier") return {};
  throw InternalError(fmt::format("no traffic is known for the collective '{}'", collective));
}

double bound_bus_bandwidth_gb_per_s(const std::string& collective, int ranks, double bytes,
                                    double memory_gb_per_s) {
  const double seconds =
      collective_traffic(collective, ranks, bytes).moved_bytes / (memory_gb_per_s * 1e9);
  return algorithm_bandwidth_gb_per_s(bytes, seconds) * bus_bandwidth_factor(collective, ranks);
}

}  // namespace ddpbench::report
