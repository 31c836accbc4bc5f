// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A report with a run of every kind: ok, not available, oversubscribed, failed, skipped.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report::test {

// Runs, in order: single, dp, ddp (with a planted slowness), ps (one server, oversubscribed), ddp
// (failed before a step), dp (skipped).
Report sample_report();
// The same report with text that tries to be markup or code, in every place that a chart shows.
Report hostile_report();
// A report of these runs, without an error of its own.
Report report_of(std::vector<Run> runs);
// The message with which parse_report("some.json") refuses a text, or kNothingThrown.
inline constexpr const char* kNothingThrown = "nothing was thrown";
std::string refusal(const std::string& text);
// The same for the sample report with the value at one JSON pointer replaced.
std::string refusal_with(const char* pointer, const nlohmann::ordered_json& value);
Run sample_run(const char* strategy, int world_size, double samples_per_s);

// Standard normal numbers, equal everywhere for a seed (unlike std::normal_distribution's).
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  // Box and Muller, A note on the generation of random normal deviates, 1958.
  double operator()() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace ddpbench::report::test
