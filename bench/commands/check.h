// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench check NEW... --baseline BASE...`: the regression gate.
#pragma once

#include <string>

namespace ddpbench::bench {

// "5%" and "0.05" as 0.05. Throws ConfigError naming `option` for anything else, for what is not
// above 0, and for a number above 1 without "%" (5 would mean 500 %).
double fraction_from_text(const std::string& option, const std::string& text);

}  // namespace ddpbench::bench
