// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How this host's TCP decides how fast it sends.
#pragma once

#include <string>
#include <vector>

namespace ddpbench::bench {

// "bbr": what connections of this network namespace begin with. "bbr, routes: cubic" where routes
// of IPv4 name another (`ip route ... congctl cubic`). Empty where the system does not say.
std::string tcp_congestion_control();

// The same of several hosts, of which `each` has a text: the text that all have, or "h0: bbr; h1:
// reno". Empty where one is unknown. REQUIRES: as many names as texts.
std::string congestion_control_of_hosts(const std::vector<std::string>& names,
                                        const std::vector<std::string>& each);

}  // namespace ddpbench::bench
