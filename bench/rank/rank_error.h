// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The error of a rank as its channel carries it.
#pragma once

#include <exception>

#include "parallel/launch/rank_writer.h"

namespace ddpbench::bench {

// Writes the error that ended a rank into its channel, unless there is one; returns the exit code.
// To be called before peers can notice that the rank does not go on, so that they do not see only
// the consequences.
int report_error(launch::RankWriter& writer, const std::exception& error);

}  // namespace ddpbench::bench
