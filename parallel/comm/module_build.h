// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a program and the modules that it opens at run time must have in common.
#pragma once

namespace ddpbench {

// The program and its modules hand each other C++ objects. This number is raised with every change
// of a class that crosses a module's border.
#define DDPBENCH_MODULE_INTERFACE "16"

// Interface and compiler must be equal on both sides: both decide how objects lie in memory.
inline constexpr const char* kModuleBuild =
    "interface " DDPBENCH_MODULE_INTERFACE ", compiler " __VERSION__;

}  // namespace ddpbench
