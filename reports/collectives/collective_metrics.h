// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a collective costs at least where ranks share memory, and what that bounds its bus
// bandwidth to (docs/metrics.md). Algorithm and bus bandwidth are in metrics.h.
#pragma once

#include <string>

namespace ddpbench::report {

struct CollectiveTraffic {
  double moved_bytes = 0;      // read and written by all ranks together, at least
  double footprint_bytes = 0;  // different bytes that are touched, of all ranks together
};

// `bytes`: of the whole buffer, as nccl-tests counts it. Whatever the algorithm: every byte that
// contributes is read once, every byte of a result written once; what a rank has in place already
// is not. Nothing for "barrier". Throws InternalError for an unknown collective.
CollectiveTraffic collective_traffic(const std::string& collective, int ranks, double bytes);

// The bus bandwidth at which memory that moves `memory_gb_per_s` (bytes read and written, all
// ranks' cores together) is busy all the time. REQUIRES: the collective moves bytes.
double bound_bus_bandwidth_gb_per_s(const std::string& collective, int ranks, double bytes,
                                    double memory_gb_per_s);

}  // namespace ddpbench::report
