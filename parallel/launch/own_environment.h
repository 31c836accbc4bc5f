// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The variables of this process's environment.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace ddpbench::launch {

// All of them.
std::map<std::string, std::string> environment_variables();

// nullopt: it is not set.
std::optional<std::string> environment_variable(const char* name);

// Copies the environment. The functions above read the copy from now on, so they may be called
// while a library changes the environment on another thread, as MPI does when it starts. REQUIRES:
// no other thread calls them meanwhile.
void keep_environment();

}  // namespace ddpbench::launch
