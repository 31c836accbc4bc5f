// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HostClaim: a name that one process at a time has on this host. It is free again when that process
// ends, however it ends, and leaves no file.
#pragma once

#include <string>
#include <utility>

#include "base/file.h"

namespace ddpbench::launch {

// An abstract socket address (unix(7)), so it holds within one network namespace. Any user may take
// any name: it orders processes that trust each other and protects nothing.
class HostClaim {
 public:
  // At most 107 bytes of `name` count.
  explicit HostClaim(std::string name) : name_(std::move(name)) {}

  // Returns whether this object has the name from now on, or had it before. Throws UnavailableError
  // where the system gives no socket.
  bool take();

 private:
  std::string name_;
  FileDescriptor socket_;
};

}  // namespace ddpbench::launch
