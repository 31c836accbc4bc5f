// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes random text that cannot be guessed, from the system's source. base/random.h has numbers
// that repeat.
#pragma once

#include <cstddef>
#include <string>

namespace ddpbench {

// So many random bytes (at most 256) in hexadecimal. Throws InternalError when the system gives
// none.
std::string random_hex(std::size_t bytes);

}  // namespace ddpbench
