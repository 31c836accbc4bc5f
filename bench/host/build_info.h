// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What this program was built from and with, and where its files are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::bench {

// The version, the commit, and whether files differed from it when this was built.
report::Generator generator();

// Returns "ddpbench 0.1.0 (commit 1a2b3c4d5e6f, with local changes)".
std::string version_text();

struct BuildInfo {
  std::string compiler;      // "gcc 12.2.0"
  std::string build_type;    // "Release"
  std::string sanitizers;    // "address,undefined"; empty: none
  bool cuda_module = false;  // DDPBENCH_ENABLE_CUDA
};
BuildInfo build_info();

// Libraries whose version the build knows: name -> version. Others tell theirs at run time.
std::map<std::string, std::string> build_libraries();

// The place of the program's files: <prefix>/share/ddpbench beside an installed binary, else the
// source tree that it was built from.
struct InstallPaths {
  std::string root;                     // absolute; empty when there is neither
  std::string origin;                   // "installed", "source tree"; empty without root
  std::vector<std::string> candidates;  // the places searched, in order

  // Folders that hold configurations. Without a root, those of all candidates.
  std::vector<std::string> config_directories() const;
  std::string models() const { return root + "/configs/models"; }
};

// `executable` may be a link ("/proc/self/exe"). A place counts when it has a configs folder.
InstallPaths find_install_paths(const std::string& executable, const std::string& source_directory);
InstallPaths install_paths();  // of this program

}  // namespace ddpbench::bench
