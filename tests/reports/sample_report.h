// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A report with a run of every kind: ok, not available, oversubscribed, failed, skipped.
#pragma once

#include "reports/data/report.h"

namespace ddpbench::report::test {

// Runs, in order: single, dp, ddp (with a planted slowness), ps (one server, oversubscribed), ddp
// (failed before a step), dp (skipped).
Report sample_report();
// The same with words that try to be code, in every place that a chart shows.
Report hostile_report();
Run sample_run(const char* strategy, int world_size, double samples_per_s);

}  // namespace ddpbench::report::test
