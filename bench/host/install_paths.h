// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the files that belong to the program are: <prefix>/share/ddpbench beside an installed
// binary, else the source tree that it was built from. Both have the same folders inside.
#pragma once

#include <string>
#include <vector>

namespace ddpbench::bench {

struct InstallPaths {
  std::string root;                     // absolute; empty when there is neither
  std::string origin;                   // "installed", "source tree"; empty like root
  std::vector<std::string> candidates;  // where it looked, in order

  // Folders that hold configurations; all candidates' when there is no root, so that messages can
  // say where files were looked for.
  std::vector<std::string> config_directories() const;
  std::string models() const { return root + "/configs/models"; }
  std::string config_schema() const { return root + "/configs/schema/config.schema.json"; }
};

// `executable` may be a link ("/proc/self/exe"). A place counts when it has a configs folder.
InstallPaths find_install_paths(const std::string& executable, const std::string& source_directory);

}  // namespace ddpbench::bench
