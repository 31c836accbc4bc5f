// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JSON as text for people and for diff: one key per line, but a list of numbers on one line, as a
// report has thousands of samples. Private to reports/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ddpbench::report {

using Json = nlohmann::ordered_json;

// A value that could not be taken is null beside "<key>_reason".
inline constexpr const char* kReasonSuffix = "_reason";

// Ends with a newline. Text that is not UTF-8 gets replacement characters.
std::string json_text(const Json& value);

}  // namespace ddpbench::report
