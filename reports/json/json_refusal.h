// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The second, slow look at a text that the fast parser refused: where and why. Private to reports/.
#pragma once

#include <string>

namespace ddpbench::report {

// Throws ConfigError with line, column and JSON pointer of the first thing that is wrong: syntax,
// nesting, a number that no field can hold, a NUL byte, a text beyond the limits. Never follows
// nesting and never quotes more than a few words. `why`: what the fast parser said, for a text in
// which nothing is found.
[[noreturn]] void refuse_json(const std::string& text, const std::string& name,
                              const std::string& why);

}  // namespace ddpbench::report
