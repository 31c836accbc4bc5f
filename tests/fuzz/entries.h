// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What libFuzzer and the corpus test do with one input. Whatever the bytes are, an entry returns:
// anything that escapes is a bug.
#pragma once

#include <string>

namespace ddpbench::fuzz {

// A report: refused with a ConfigError that names file and place, or read, shown, written again and
// read again with the same result. Returns whether it was a report.
bool report_entry(const std::string& input);

// A configuration file: refused, or applied to the options, whose JSON gives the same options
// again. An input that begins with '-' holds flags, one a line; with 'D', DDPBENCH_ variables.
// Returns whether it was accepted.
bool config_entry(const std::string& input);

}  // namespace ddpbench::fuzz
