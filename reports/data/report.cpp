// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/report.h"

namespace ddpbench::report {

std::string_view to_string(Status status) {
  return kStatusWords.at(static_cast<std::size_t>(status));
}

Figure DeviceRow::peak_memory() const {
  return peak_reason.empty() ? Figure::of(static_cast<double>(peak_bytes))
                             : Figure::missing(peak_reason);
}

bool is_complete(const Run& run) {
  return run.status == Status::ok || run.status == Status::diverged;
}

void mark_diverged(Run& run, const std::string& why) {
  run.status = Status::diverged;
  run.error = {.kind = "diverged", .message = why};
}

std::string missing_reason(const Run& run) {
  constexpr const char* kReasons[] = {"not recorded", "training diverged", "the run failed",
                                      "the run was skipped", "the run was interrupted"};
  return kReasons[static_cast<std::size_t>(run.status)];
}

std::string missing_reason(const Figure& figure, const Run& run) {
  return figure.reason.empty() ? missing_reason(run) : figure.reason;
}

std::string_view local_changes(const Generator& generator) {
  if (!generator.git_commit) return "";
  if (!generator.git_dirty) return "changes unknown";
  return *generator.git_dirty ? "with changes" : "";
}

}  // namespace ddpbench::report
