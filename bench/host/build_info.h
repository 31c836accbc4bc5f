// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What this program was built from, by what and with what.
#pragma once

#include <map>
#include <string>

#include "reports/data/report.h"

namespace ddpbench::bench {

// Version, commit and whether files differed from it, taken when this was built.
report::Generator generator();

// "ddpbench 0.1.0 (commit 1a2b3c4d5e6f, with local changes)".
std::string version_text();

struct BuildInfo {
  std::string compiler;      // "gcc 12.2.0"
  std::string build_type;    // "Release"
  std::string sanitizers;    // "address,undefined"; empty: none
  bool cuda_module = false;  // DDPBENCH_ENABLE_CUDA
  std::string source_directory;
};
BuildInfo build_info();

// Libraries whose version the build knows: name -> version. Others (oneDNN, CUDA) say theirs when
// they run.
std::map<std::string, std::string> build_libraries();

}  // namespace ddpbench::bench
