// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts what operator new hands out, in the whole test program.
#pragma once

#include <cstdint>

namespace ddpbench::data {

std::int64_t allocation_count();

}  // namespace ddpbench::data
