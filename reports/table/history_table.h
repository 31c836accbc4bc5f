// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The history of settings over commits, for people; exports/run_formats.h has it for Apache Otava.
#pragma once

#include <string>

#include "reports/metrics/history.h"

namespace ddpbench::report {

// A block for each setting with a line for each commit: its median step time, how far the
// repetitions reach, the change from the commit before, and both drawn on a common scale. At most
// `width` columns wide where that is possible, when width > 0.
std::string render_history(const History& history, int width);

}  // namespace ddpbench::report
