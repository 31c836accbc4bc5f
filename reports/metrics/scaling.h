// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Speed-up and efficiency against the `single` run of the same report.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

// Fills run.scaling or run.scaling_reason of every run: speedup = throughput / that of the
// baseline, efficiency = speedup / world_size. The baseline is the `single` run of the same report
// with the same device kind and model, threads, network and precision, and the same per-device
// batch in weak scaling or global batch in strong scaling; the median over its repetitions.
void fill_scaling(Report& report);

// All usable `single` runs of a report by their work. Made in one pass, as a report may hold
// thousands of runs. Points into the report.
class Baselines {
 public:
  explicit Baselines(const Report& report);

  // The repetitions of the baseline of `run`, as fill_scaling chooses it: in the same graph mode if
  // there are any, otherwise in the first of the order that --cuda-graph=auto prefers; of
  // these those with as many loader workers, if there are any.
  const std::vector<const Run*>& of(const Run& run) const;
  // The median over these.
  std::optional<double> throughput(const Run& run) const;
  std::string why_none(const Run& run) const;

 private:
  struct Alike {
    std::vector<const Run*> all;
    std::map<std::string, std::vector<const Run*>> by_workers;  // by their number of loader workers
  };
  bool any_ = false;  // whether there is a `single` run, usable or not
  std::vector<const Run*> none_;
  // By strong scaling and the settings that must be equal, then by graph mode.
  std::map<std::pair<bool, Settings>, std::map<std::string, Alike>> runs_;
};

}  // namespace ddpbench::report
