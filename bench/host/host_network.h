// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// This host in its network: the addresses at which ranks of other hosts reach it, names that its
// processes claim, and how its TCP decides how fast it sends.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace ddpbench::bench {

// This host's name; "unknown" when the system does not say.
std::string host_name();

// Whether the text is an IPv4 address.
bool is_address(const std::string& text);

// A network interface of this host with its IPv4 address.
struct Interface {
  std::string name, address;
};
// The one with this name or address. Throws ConfigError that names those that there are.
Interface find_interface(const std::string& interface);

// The address of this host from which it reaches `host`, a name or an address. Nothing is sent.
// Throws ConfigError when the host is not known here, CommError when no way leads there.
std::string address_towards(const std::string& host, double timeout_s);

// A name that one process at a time has on this host, until it ends: an abstract socket address
// (unix(7)) of one network namespace. Any user may take any name: it protects nothing.
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

// "bbr": what connections of this network namespace begin with. "bbr, routes: cubic" where routes
// of IPv4 name another (`ip route ... congctl cubic`). Empty where the system does not say.
std::string tcp_congestion_control();

// The same of several hosts, of which `each` has a text: the text that all have, or "h0: bbr; h1:
// reno". Empty where one is unknown. REQUIRES: as many names as texts.
std::string congestion_control_of_hosts(const std::vector<std::string>& names,
                                        const std::vector<std::string>& each);

}  // namespace ddpbench::bench
