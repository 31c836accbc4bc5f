// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The report files of the two sides that the gate compares.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::bench {

// Throws ConfigError for a file that is given twice: its runs would pass for repetitions.
void refuse_twice_on_one_side(const std::string& command, const std::vector<std::string>& paths);

// Throws ConfigError for a file that is on both sides: such a comparison could not fail.
void refuse_same_on_both_sides(const std::string& command,
                               const std::vector<std::string>& candidate,
                               const std::vector<std::string>& base);

// The same for a copy: a report on one side whose content is that of one on the other. The reports
// are those of the paths, in their order.
void refuse_copies_on_both_sides(const std::string& command,
                                 const std::vector<std::string>& candidate_paths,
                                 const std::vector<report::Report>& candidate,
                                 const std::vector<std::string>& base_paths,
                                 const std::vector<report::Report>& base);

// All reports of one side, none of them twice.
std::vector<report::Report> read_side(const std::string& command,
                                      const std::vector<std::string>& paths);

}  // namespace ddpbench::bench
