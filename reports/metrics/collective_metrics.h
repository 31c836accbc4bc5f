// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The least memory traffic of a collective whose ranks share memory, and the bus bandwidth that it
// allows (docs/metrics.md). Algorithm and bus bandwidth themselves are in metrics.h.
#pragma once

#include <string>

namespace ddpbench::report {

struct CollectiveTraffic {
  double moved_bytes = 0;      // at least read and written, by all ranks together
  double footprint_bytes = 0;  // different bytes touched, by all ranks together
};

// A lower bound for every algorithm: each byte that contributes is read once and each byte of a
// result is written once, except what a rank already has in place. `bytes`: of the whole buffer, as
// nccl-tests counts it. Nothing for "barrier". Throws InternalError for an unknown collective.
CollectiveTraffic collective_traffic(const std::string& collective, int ranks, double bytes);

// The bus bandwidth that keeps memory busy all the time. `memory_gb_per_s`: bytes read and written
// by the cores of all ranks together. REQUIRES: the collective moves bytes.
double bound_bus_bandwidth_gb_per_s(const std::string& collective, int ranks, double bytes,
                                    double memory_gb_per_s);

}  // namespace ddpbench::report
