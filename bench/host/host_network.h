// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// This host in its network: the addresses at which ranks of other hosts reach it, and how its TCP
// decides how fast it sends.
#pragma once

#include <string>

namespace ddpbench::bench {

// This host's name; "unknown" when the system does not say.
std::string host_name();

// Whether the text is an IPv4 address ("10.0.0.1"). Those of IPv6 are not known here: they count as
// names.
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

// "bbr": what connections of this network namespace begin with, unless their route names another.
// Empty where the system does not say.
std::string tcp_congestion_control();

}  // namespace ddpbench::bench
