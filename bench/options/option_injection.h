// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads --inject: "kind:key=value,key=value" (the kinds are in options.h).
#pragma once

#include <string>

#include "bench/options/options.h"

namespace ddpbench::bench {

// Throws ConfigError, with `where` in front. It refuses an unknown kind, key or phase (naming the
// nearest), a key that the kind does not take, a missing key, a key given twice, and wrong values.
Injection parse_injection(const std::string& text, const std::string& where);

// Whether the fault strikes calls of a communicator: stall, and slow without a phase.
bool strikes_calls(const Injection& injection);

}  // namespace ddpbench::bench
