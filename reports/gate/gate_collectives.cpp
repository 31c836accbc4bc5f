// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_collectives.h"

#include <fmt/format.h>

#include "base/text.h"

namespace ddpbench::report {

PairKey collective_key(const CollectiveRow& row) {
  return {row.operation, row.ranks, 0, row.backend, true, row.bytes};
}

Settings collective_settings(const CollectiveRow& row) {
  Settings settings = {{"data_type", row.data_type},
                       {"redop", row.reduction},
                       {"all_reduce", row.all_reduce},
                       {"mode", row.mode},
                       {"in_place", row.in_place ? "true" : "false"},
                       {"device", row.device},
                       {"device_model", row.device_model},
                       {"oversubscribed", row.oversubscribed ? "true" : "false"}};
  // A row that ended early does not know how many it would have done.
  if (row.time_s) settings["iterations"] = std::to_string(row.iterations);
  std::erase_if(settings, [](const auto& setting) { return setting.second.empty(); });
  return settings;
}

Run run_of(const Report& report, const CollectiveRow& row) {
  Run run;
  run.strategy = row.operation;
  run.world_size = row.ranks;
  run.backend = row.backend;
  run.device = row.device;
  run.device_model = row.device_model;
  run.oversubscribed = row.oversubscribed;
  run.step.count = row.iterations;
  run.step.time_s = row.time_s;
  run.status = row.time_s                             ? Status::ok
               : report.status == Status::interrupted ? Status::interrupted
                                                      : Status::failed;
  if (!row.time_s) run.reason = row.wrong_reason;
  run.verification.status = "not_applicable";
  run.verification.reason = row.wrong_reason;
  if (row.wrong) run.verification.status = *row.wrong == 0 ? "passed" : "failed";
  if (row.wrong.value_or(0) > 0) {
    run.verification.reason = fmt::format("{} of the results", counted(*row.wrong, "element")) +
                              (*row.wrong == 1 ? " is wrong" : " are wrong");
  }
  return run;
}

}  // namespace ddpbench::report
