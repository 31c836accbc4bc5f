// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What must be equal for two runs to be compared. Private to reports/ and to the study of the
// gate's errors, which draws from runs that could be.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate.h"

namespace ddpbench::report {

// Key (of a run in the report) to value, as text. What a run did not record, because it was skipped
// or a different version wrote it, is absent and differs from nothing.
using Settings = std::map<std::string, std::string>;

PairKey pair_key(const Run& run);
Settings settings_of(const Run& run);
// Keys that both have, with different values.
std::vector<std::string> differing_keys(const Settings& a, const Settings& b);
// Whether one of `allowed` is the key, its group ("optimizer" of "optimizer/lr") or its last part.
bool is_allowed(const std::string& key, std::span<const std::string> allowed);

}  // namespace ddpbench::report
