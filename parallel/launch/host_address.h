// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The addresses of this host at which ranks of other hosts reach it.
#pragma once

#include <string>

namespace ddpbench::launch {

// Whether the text is an IPv4 address.
bool is_address(const std::string& text);

// The IPv4 address of `interface`, which is the name of a network interface of this host or one of
// its addresses. Throws ConfigError that names those that there are.
std::string interface_address(const std::string& interface);

// The name of that interface. Throws as interface_address() does.
std::string interface_name(const std::string& interface);

// The address of this host from which it reaches `host`, a name or an address. Nothing is sent.
// Throws ConfigError when the host is not known here, CommError when no way leads there.
std::string address_towards(const std::string& host, double timeout_s);

}  // namespace ddpbench::launch
