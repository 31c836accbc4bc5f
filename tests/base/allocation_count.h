// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How often operator new was called in the whole test program, by all threads.
#pragma once

#include <cstdint>

namespace ddpbench::test {

std::int64_t allocation_count();

}  // namespace ddpbench::test
