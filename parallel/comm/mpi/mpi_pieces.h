// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How large the messages are in which a transfer goes to another rank, and how many ranks share
// this host.
//
// Open MPI asks the receiver before it sends what is beyond its eager limit (64 KiB over TCP). Over
// a network whose queues are full of data of the same exchange, question and answer take many
// milliseconds. Messages below the limit go at once. An all-reduce of 25 MiB over 1 Gbit/s takes
// 0.97 of the time with them between 4 hosts as a ring, 0.61 as direct exchanges, and 0.7 to 0.8
// between 2 (docs/network-study.md). Within a host one large message is better.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "parallel/comm/mpi/mpi_aside.h"

namespace ddpbench::comm {

// A message of any size goes as one.
inline constexpr std::size_t kWholePiece = std::numeric_limits<std::size_t>::max();

struct MpiPlaces {
  std::vector<std::size_t> pieces;  // [rank] the most bytes of one message, the same on both sides
  int ranks_here = 1;               // on this rank's host
};

// Collective over the `size` ranks of `among`, unless `host` is empty. `host`: the host_mark() of
// this rank; empty: all are on one host. Throws what run_aside() throws.
MpiPlaces find_places(MPI_Comm among, int size, const std::string& host, const Patience& patience);

}  // namespace ddpbench::comm
