// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How single fields are written in a report. Private to reports/.
//
// The rule behind them: what could not be taken is null beside "<key>_reason", never 0 or "".
#pragma once

#include <array>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "reports/data/report.h"

namespace ddpbench::report {

using Json = nlohmann::ordered_json;

inline constexpr const char* kReasonSuffix = "_reason";

// Phases that every run has, in the order of the report; a strategy adds its own.
inline constexpr std::array<const char*, 7> kCommonPhases = {
    "data_wait_s", "forward_s",      "backward_s",   "optimizer_s",
    "comm_s",      "comm_exposed_s", "overlap_ratio"};

struct ConditionFigure {
  const char* key;
  Figure Conditions::*figure;
};
inline constexpr std::array<ConditionFigure, 10> kConditionFigures = {{
    {"cpu_frequency_begin_mhz", &Conditions::cpu_frequency_begin_mhz},
    {"cpu_frequency_end_mhz", &Conditions::cpu_frequency_end_mhz},
    {"other_load_ratio", &Conditions::other_load_ratio},
    {"stolen_ratio", &Conditions::stolen_ratio},
    {"quota_throttled_ratio", &Conditions::quota_throttled_ratio},
    {"major_page_faults", &Conditions::major_page_faults},
    {"involuntary_context_switches", &Conditions::involuntary_context_switches},
    {"swapped_in_pages", &Conditions::swapped_in_pages},
    {"thermal_throttle_count", &Conditions::thermal_throttle_count},
    {"step_drift_ratio", &Conditions::step_drift_ratio},
}};

// null and the reason.
void put_missing(Json& object, const std::string& key, const std::string& reason);
// The value (an integer when the key ends in "_bytes"), or null and the figure's own reason, or
// `fallback` when it has none.
void put_figure(Json& object, const std::string& key, const Figure& figure,
                const std::string& fallback);
// Text and counts that are missing when empty or 0.
void put_text(Json& object, const std::string& key, const std::string& value,
              const std::string& reason);
void put_count(Json& object, const std::string& key, std::integral auto value,
               const std::string& reason) {
  if (value == 0) {
    put_missing(object, key, reason);
  } else {
    object[key] = value;
  }
}
// Where null says "does not apply" (a signal of an exception) and no reason belongs to it.
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json or_null(const std::string& value);

Json error_json(const ErrorInfo& error);
Json run_json(const Run& run);
// "collectives" and "memory_bandwidth", where there are any.
void put_collectives(Json& report_json, const Report& report);

}  // namespace ddpbench::report
