// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/missing_reason.h"

namespace ddpbench::report {

std::string missing_reason(const Run& run) {
  switch (run.status) {
    case Status::failed:
      return "the run failed";
    case Status::skipped:
      return "the run was skipped";
    case Status::interrupted:
      return "the run was interrupted";
    case Status::ok:
      break;
  }
  return "not recorded";
}

std::string missing_reason(const Figure& figure, const Run& run) {
  return figure.reason.empty() ? missing_reason(run) : figure.reason;
}

}  // namespace ddpbench::report
