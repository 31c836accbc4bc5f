// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks event by event what holds for every trace.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ddpbench::test {

// Returns the problems of Chrome trace events: an event before time 0 (which Perfetto drops), out
// of order or outside every step of its process; one that overlaps another of its thread without
// lying within it; a thread or process without a name. Empty: none.
std::vector<std::string> trace_problems(const nlohmann::json& trace);

// The number of events of `category` in `process` whose name begins with `name`.
int count_events(const nlohmann::json& trace, int process, const std::string& category,
                 const std::string& name = "");
// The processes' names in the order of their numbers.
std::vector<std::string> process_names(const nlohmann::json& trace);

}  // namespace ddpbench::test
