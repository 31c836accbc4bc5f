// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/report.h"

#include "base/error.h"

namespace ddpbench::report {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::diverged:
      return "diverged";
    case Status::failed:
      return "failed";
    case Status::skipped:
      return "skipped";
    case Status::interrupted:
      return "interrupted";
  }
  throw InternalError(fmt::format("unknown status {}", static_cast<int>(status)));
}

bool is_complete(const Run& run) {
  return run.status == Status::ok || run.status == Status::diverged;
}

void mark_diverged(Run& run, const std::string& why) {
  run.status = Status::diverged;
  run.error = {.kind = "diverged", .message = why};
}

std::string missing_reason(const Run& run) {
  switch (run.status) {
    case Status::failed:
      return "the run failed";
    case Status::skipped:
      return "the run was skipped";
    case Status::interrupted:
      return "the run was interrupted";
    case Status::diverged:
      return "training diverged";
    case Status::ok:
      break;
  }
  return "not recorded";
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
