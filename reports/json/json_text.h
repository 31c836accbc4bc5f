// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JSON as text for people and for diff: one key per line, but a list of numbers on one line, as a
// report has thousands of samples. Private to reports/.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/math.h"

namespace ddpbench::report {

using Json = nlohmann::ordered_json;

// A value that could not be taken is null beside "<key>_reason".
inline constexpr const char* kReasonSuffix = "_reason";

// Ends with a newline. Text that is not UTF-8 gets replacement characters.
std::string json_text(const Json& value);

// `text` with replacement characters for bytes that are not UTF-8.
std::string valid_utf8(const std::string& text);

// Limits of a report, so that reading any file is bounded in time and memory. A report of 1,000
// runs and 10 million samples has 220 MB and 10 million values.

// Reading any file takes at most about six times its size in memory.
inline constexpr std::size_t kLargestReport = 512 * kMiB;
inline constexpr std::string_view kNoReportIsLarger =
    "; even a report of 10 million step samples has only 220 MB";
// Commas, colons, brackets and braces, inside and outside of strings.
inline constexpr std::size_t kMostMarks = 50'000'000;
// A report nests eight deep; only its configuration is free. The limit bounds recursion, as in
// writing it again.
inline constexpr std::size_t kDeepest = 64;
inline constexpr std::size_t kMostMembers = 1000;        // of one object, as the look-up is linear
inline constexpr std::size_t kMostElements = 1'000'000;  // of one array other than step samples
inline constexpr std::size_t kLongestText = kMiB;

}  // namespace ddpbench::report
