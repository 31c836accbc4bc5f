// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says about the machine and the process that it was made on.
#pragma once

#include <map>
#include <string>

#include "bench/options/option_parser.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

using Variables = std::map<std::string, std::string>;

// The environment of this process.
Variables process_variables();

// Those that change what is measured (threads, devices, libraries, our options); no others, since
// reports are passed on, and no secrets.
Variables recorded_variables(const Variables& all);

// Names and look-up for the parser. `variables` must outlive the context.
ParseContext parse_context(const Variables& variables, std::vector<std::string> config_directories);

// This host's name; "unknown" when the system does not say.
std::string host_name();

// Reads this host. `libraries`: what only runs of other rooms know (oneDNN's version, ...), added
// to what the build knows. GPUs are left empty: the CUDA device's to fill.
report::Environment capture_environment(const Variables& variables, const Variables& libraries);

}  // namespace ddpbench::bench
