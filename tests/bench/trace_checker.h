// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What holds for every trace: checked event by event.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ddpbench::test {

// Problems of Chrome trace events: an event before time 0 (which Perfetto drops) or out of order,
// one that overlaps another of its thread without lying within it, one outside every step of its
// process, a thread or process without a name. Empty: none.
std::vector<std::string> trace_problems(const nlohmann::json& trace);

// The number of events of `category` in `process` whose name begins with `name`.
int count_events(const nlohmann::json& trace, int process, const std::string& category,
                 const std::string& name = "");
// The processes' names in the order of their numbers.
std::vector<std::string> process_names(const nlohmann::json& trace);

}  // namespace ddpbench::test
