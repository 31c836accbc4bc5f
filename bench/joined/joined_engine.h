// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine of a joined world's backend, between the plan and the first communicator. In a world
// of one rank, and with a backend that is in no module, these functions do nothing.
#pragma once

#include <string>

#include "bench/joined/joined_hosts.h"
#include "bench/plan/device_plan.h"
#include "parallel/comm/comm_module.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// Whether the engine's library may keep a thread of this rank for ever: below mpirun, MPI may do so
// in a call or when its communicators end.
bool may_hang(const std::string& backend, const launch::RankEnvironment& environment);

// Sets the variables that the backend's library reads, and begins what it does until its first
// communicator: MPI takes a quarter of a second, most of which it sleeps. It may change the
// environment until finish_engine() returns, so nothing may read the environment in between.
// `interface`: --interface.
void prepare_engine(const DevicePlan& devices, const std::string& interface,
                    const launch::RankEnvironment& environment, const JoinedHosts& hosts);

// Waits for what prepare_engine() has begun. Call it before training, because oneDNN reads the
// environment. Throws what CommModule::finish_preparing() throws.
void finish_engine(const std::string& backend, const launch::RankEnvironment& environment,
                   const comm::EngineOptions& options);

}  // namespace ddpbench::bench
