// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The names alone, for those who read options and run nothing.
#include "parallel/strategy.h"

namespace ddpbench {

std::vector<std::string> known_strategies() { return {"single", "dp", "ddp", "ps"}; }

}  // namespace ddpbench
