// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/install_paths.h"

#include <filesystem>

namespace ddpbench::bench {

namespace fs = std::filesystem;

std::vector<std::string> InstallPaths::config_directories() const {
  if (!root.empty()) return {root + "/configs"};
  std::vector<std::string> directories;
  for (const std::string& candidate : candidates) directories.push_back(candidate + "/configs");
  return directories;
}

InstallPaths find_install_paths(const std::string& executable,
                                const std::string& source_directory) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(executable, ignored);
  // <prefix>/bin/ddpbench; configs/CMakeLists.txt installs to the same place.
  const std::string installed = (real.parent_path().parent_path() / "share/ddpbench").string();
  InstallPaths paths;
  paths.candidates = {installed, source_directory};
  const char* origins[] = {"installed", "source tree"};
  for (std::size_t i = 0; i < paths.candidates.size() && paths.root.empty(); ++i) {
    if (!fs::is_directory(fs::path(paths.candidates[i]) / "configs", ignored)) continue;
    paths.root = paths.candidates[i];
    paths.origin = origins[i];
  }
  return paths;
}

}  // namespace ddpbench::bench
