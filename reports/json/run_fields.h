// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The members of one run (fields.h), and those that it shares with a report. Private to reports/.
#pragma once

#include "reports/json/fields.h"

namespace ddpbench::report {

// The reason for a figure of the system that the system did not tell.
inline constexpr const char* kUnknown = "not reported by this system";

void run_fields(Fields<false>& f, const Run& run);
void run_fields(Fields<true>& f, Run& run);

inline constexpr auto kErrorFields = [](auto& f, auto& error) {
  f.value("kind", error.kind, kNotEmpty);
  f.or_null("rank", error.rank);
  f.or_null("host", error.host);
  f.or_null("signal", error.signal);
  f.or_null("step", error.step);
  f.or_null("phase", error.phase);
  f.or_null("operation", error.operation);
  f.lenient().or_null("bucket", error.bucket);
  f.value("message", error.message, kNotEmpty);
};

inline constexpr auto kStatisticsFields = [](auto& f, auto& time) {
  f.value("median", time.median, kAmount);
  f.known("iqr", time.iqr, "one value has no spread", kAmount);
  f.value("p5", time.p5, kAmount);
  f.value("p95", time.p95, kAmount);
  f.value("p99", time.p99, kAmount);
  f.value("min", time.min, kAmount);
  f.value("max", time.max, kAmount);
};

}  // namespace ddpbench::report
