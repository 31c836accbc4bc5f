// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The text of `ddpbench info`: version, what was built in, devices, libraries, limits, places.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/host/build_info.h"
#include "bench/host/host_limits.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

struct InfoContents {
  report::Environment environment;
  HostLimits limits;
  InstallPaths paths;
  std::vector<std::string> data_directories;  // in the order of the search
  // More lines of "Built in": {"strategies", "single, dp"}, {"data sets", "mnist"}.
  std::vector<std::pair<std::string, std::string>> built_in;
  // What moves data between ranks: {"shm", "CPU devices: ..."}, {"nccl", "...; not here: ..."}.
  std::vector<std::pair<std::string, std::string>> backends;
  std::string no_gpu_reason;  // why environment.gpus is empty
  std::string no_cpu_bf16;    // why CPU devices do not compute in bf16; empty: they do
};

// At most `width` columns wide (0: not wrapped), but for words that are longer.
std::string info_text(const InfoContents& contents, int width);

}  // namespace ddpbench::bench
