// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Command lines for shells: what a remote shell runs on its host, and how it is started itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::launch {

// argv for /bin/sh that replaces itself by `command`, which the user wrote (a program with
// arguments, quoted as in a shell), with `arguments` behind it. What these hold is never read as
// shell code.
std::vector<std::string> shell_arguments(const std::string& command,
                                         const std::vector<std::string>& arguments);

// The command line that a remote shell gives to the login shell of its host: runs the program with
// one plain word. Any login shell understands it (sh, csh, fish).
std::string remote_command(const std::string& program, std::string_view word);

}  // namespace ddpbench::launch
