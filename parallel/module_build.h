// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What program and module must have in common: they hand each other C++ objects.
#pragma once

namespace ddpbench {

// Raised with every change of a class that crosses the module's border.
#define DDPBENCH_MODULE_INTERFACE "12"

// Interface and compiler; both decide how objects lie in memory.
inline constexpr const char* kModuleBuild =
    "interface " DDPBENCH_MODULE_INTERFACE ", compiler " __VERSION__;

}  // namespace ddpbench
