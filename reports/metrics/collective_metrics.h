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

// Bytes that ipc reads and writes in GPU memory, all ranks together, for a collective in registered
// memory as `ddpbench comm` calls it (in place as in collective_traffic). Staging memory and flags
// move no bytes there. Counted from its plan (parallel/comm/cuda/ipc/ipc_plan.cpp). In an
// all-reduce of S bytes between n ranks, the rank that reduces a byte reads it from all n and
// writes it once, in place; then n - 1 ranks read and write it: (n + 1) S + 2 (n - 1) S = (3n - 1)
// S. docs/metrics.md has the others. Throws InternalError for an unknown collective.
double ipc_bytes(const std::string& collective, int ranks, double bytes);
// The same for an all-reduce by the ring. In n - 1 steps each rank reads two chunks of S / n bytes
// and writes one, in n - 1 more it reads one and writes one: 3 (n - 1) S + 2 (n - 1) S = 5 (n - 1)
// S.
double ipc_ring_all_reduce_bytes(int ranks, double bytes);

}  // namespace ddpbench::report
