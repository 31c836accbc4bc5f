// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs gnuplot, which draws the pictures of charts.
#pragma once

#include <chrono>
#include <string>

namespace ddpbench::bench {

inline constexpr std::chrono::seconds kGnuplotDeadline{60};

// The picture that gnuplot draws from `script` (reports/charts/gnuplot_script.h). It reads no
// settings of the user. Throws UnavailableError, with how to install it, when there is no gnuplot
// on PATH; InternalError when it fails, complains (its words are in the message), draws nothing, or
// is not done by the deadline, when it is ended.
std::string run_gnuplot(const std::string& script,
                        std::chrono::milliseconds deadline = kGnuplotDeadline);

}  // namespace ddpbench::bench
