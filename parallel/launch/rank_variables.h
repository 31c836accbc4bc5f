// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The environment that the supervisor gives to a rank. Private to launch/.
#pragma once

#include <string>
#include <vector>

#include "parallel/launch/launch_spec.h"

namespace ddpbench::launch {

// Where the ranks of a run meet.
struct Rendezvous {
  int port = 0;  // on the loopback interface
  std::string secret;
};

// A secret that nobody can guess: 256 random bits in hexadecimal.
std::string make_secret();

// "NAME=value" for all of our own environment, spec.environment, the OpenMP settings and the rank
// variables; later ones replace earlier ones.
std::vector<std::string> rank_variables(const LaunchSpec& spec, int rank,
                                        const Rendezvous& rendezvous);

}  // namespace ddpbench::launch
