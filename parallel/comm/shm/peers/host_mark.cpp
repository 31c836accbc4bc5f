// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/peers/host_mark.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace ddpbench::comm {

std::string host_mark() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  std::array<char, 64> space{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return boot + " " + std::string(space.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

}  // namespace ddpbench::comm
