// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/local_changes.h"

namespace ddpbench::report {

std::string_view local_changes(const Generator& generator) {
  if (!generator.git_commit) return "";
  if (!generator.git_dirty) return "changes unknown";
  return *generator.git_dirty ? "with changes" : "";
}

}  // namespace ddpbench::report
