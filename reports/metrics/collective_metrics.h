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

// Bytes that ipc reads and writes in GPU memory for a collective in registered memory, as
// `ddpbench comm` calls it (collective_traffic says what is in place), all ranks together; staging
// memory and flags move nothing there. Counted from its plan (parallel/comm/cuda/ipc/ipc_plan.cpp):
// of an all-reduce of S bytes between n ranks each byte is read by the one rank that reduces it
// from all n, and written once, in place; then n - 1 ranks read and write it: (n + 1) S + 2 (n - 1)
// S = (3n - 1) S. docs/metrics.md has the others. Throws InternalError for an unknown collective.
double ipc_bytes(const std::string& collective, int ranks, double bytes);
// The same of an all-reduce by the ring: in n - 1 steps each rank reads two chunks of S / n bytes
// and writes one, in n - 1 more it reads one and writes one: 3 (n - 1) S + 2 (n - 1) S = 5 (n - 1)
// S.
double ipc_ring_all_reduce_bytes(int ranks, double bytes);

// GB/s (10^9) of so many bytes in so many seconds, and what share of the copies' bandwidth that is,
// which counts bytes read and written, too.
double counted_bandwidth_gb_per_s(double counted_bytes, double seconds);
double share_of_copy_bandwidth(double counted_gb_per_s, double copy_gb_per_s);

}  // namespace ddpbench::report
