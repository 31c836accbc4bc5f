// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Text of a file inside a message: short, and without what would speak to a terminal. Private to
// reports/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::report {

// Control characters become spaces; what is longer than 100 bytes ends in "... (N bytes)".
std::string message_text(std::string_view text);
// A key as one step of a JSON pointer: ~ and / escaped, and as message_text.
std::string pointer_step(std::string_view key);
// The pointer of these steps, "(the whole document)" for none. A long one loses its middle.
std::string pointer_text(const std::vector<std::string>& steps);

}  // namespace ddpbench::report
