// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JSON as text for people and for diff: a key a line, but a list of numbers on one line (a report
// holds thousands of samples). Private to reports/.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/math.h"

namespace ddpbench::report {

using Json = nlohmann::ordered_json;

// What could not be taken is null beside "<key>_reason".
inline constexpr const char* kReasonSuffix = "_reason";

// Ends with a newline. Text that is not UTF-8 gets replacement characters.
std::string json_text(const Json& value);

// The text with replacement characters for what is not UTF-8.
std::string valid_utf8(const std::string& text);

// What a report may hold at most, so that reading any file is bounded in time and memory. A report
// of 1,000 runs and 10 million samples has 220 MB and 10 million values. Private to reports/.

// Reading the largest file takes up to about six times its size, whatever it holds.
inline constexpr std::size_t kLargestReport = 512 * kMiB;
inline constexpr std::string_view kNoReportIsLarger =
    "; a report of 10 million step samples has 220 MB, this is none";
// Commas, colons, brackets and braces: those of values, and those within strings.
inline constexpr std::size_t kMostMarks = 50'000'000;
// A report nests eight deep; its configuration is the only free part. Recursion over the document
// (writing it again) must not depend on what a file holds.
inline constexpr std::size_t kDeepest = 64;
inline constexpr std::size_t kMostMembers = 1000;        // of one object: looking up is linear
inline constexpr std::size_t kMostElements = 1'000'000;  // of one array, step samples apart
inline constexpr std::size_t kLongestText = kMiB;

}  // namespace ddpbench::report
