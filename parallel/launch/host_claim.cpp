// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/host_claim.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/error.h"
#include "base/exhausted.h"

namespace ddpbench::launch {

bool HostClaim::take() {
  if (socket_) return true;
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) throw_system_error<UnavailableError>("no socket to claim a name with", errno);
  sockaddr_un address{};  // a name that begins with a zero is in no file system
  address.sun_family = AF_UNIX;
  const std::size_t bytes = std::min(name_.size(), sizeof address.sun_path - 1);
  std::copy_n(name_.begin(), bytes, address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return false;
  socket_ = std::move(socket);
  return true;
}

}  // namespace ddpbench::launch
