// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The test of a killed rank that the backends for processes of one host share.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {

// What the others do when a rank is killed.
enum class Meanwhile : std::uint8_t { receive, reduce, check };
inline constexpr std::array kMeanwhiles = {Meanwhile::receive, Meanwhile::reduce, Meanwhile::check};
// "OthersReceiveFromIt", …
std::string meanwhile_name(const ::testing::TestParamInfo<Meanwhile>& tested);

// Runs a function on so many forked processes that are ranks of the tested backend.
using ProcessRunner = std::function<Outcome(int size, const RankFunction& function)>;

// Kills rank 1 of three and expects that both survivors name it, long before the deadline.
void expect_killed_rank_named(Meanwhile meanwhile, const ProcessRunner& run);

}  // namespace ddpbench::comm::testing
