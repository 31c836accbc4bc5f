// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "reports/atomic_file.h"
#include "reports/data/report.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {

void write_report(const Report& report, const std::string& path, bool force) {
  write_file_atomically(path, json_text(to_json(report)), force);
}

}  // namespace ddpbench::report
