// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/entropy.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace ddpbench {

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 256> random{};  // reads of so many are never cut short
  ensure(bytes <= random.size(), "{} random bytes at once", bytes);
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    throw InternalError(fmt::format("the system gives no random bytes: {}", std::strerror(errno)));
  }
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", random[i]);
  return text;
}

}  // namespace ddpbench
