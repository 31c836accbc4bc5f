// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a report's file. Private to reports/.
#pragma once

#include <string>

namespace ddpbench::report {

// Throws ConfigError for what is absent, unreadable, larger than kLargestReport or not a regular
// file: a directory has no bytes, a device or pipe might never end. Has room for kJsonPadding.
std::string read_report_text(const std::string& path);

}  // namespace ddpbench::report
