// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/build_info.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/ranges.h"
#include "bench/host/version.h"

namespace ddpbench::bench {

report::Generator generator() {
  report::Generator result;
  result.version = kVersion;
  result.git_reason = kGitReason;
  if (*kGitCommit != '\0') result.git_commit = kGitCommit;
  if (result.git_reason.empty()) result.git_dirty = kGitDirty;
  return result;
}

std::string version_text() {
  const report::Generator made = generator();
  if (!made.git_commit) return fmt::format("ddpbench {} ({})\n", made.version, made.git_reason);
  std::string changes;
  if (made.git_dirty.value_or(false)) changes = ", with local changes";
  if (!made.git_dirty) changes = ": " + made.git_reason;
  return fmt::format("ddpbench {} (commit {}{})\n", made.version, made.git_commit->substr(0, 12),
                     changes);
}

BuildInfo build_info() {
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "gcc " __VERSION__;
#endif
  return {compiler, kBuildType, kSanitizers, kCudaModule};
}

std::map<std::string, std::string> build_libraries() {
  return {
      {"fmt",
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                    NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"zlib", kZlibVersion},
      {"OpenSSL", kOpensslVersion},
      {"libcurl", kCurlVersion},
      {"hwloc", kHwlocVersion},
  };
}

namespace fs = std::filesystem;

std::vector<std::string> InstallPaths::config_directories() const {
  if (!root.empty()) return {root + "/configs"};
  return mapped(candidates, [](const std::string& path) { return path + "/configs"; });
}

InstallPaths find_install_paths(const std::string& executable,
                                const std::string& source_directory) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(executable, ignored);
  // The binary is <prefix>/bin/ddpbench; configs/CMakeLists.txt installs to the same place.
  const std::string installed = (real.parent_path().parent_path() / "share/ddpbench").string();
  InstallPaths paths;
  paths.candidates = {installed, source_directory};
  const char* origins[] = {"installed", "source tree"};
  for (std::size_t i = 0; i < paths.candidates.size() && paths.root.empty(); ++i) {
    if (!is_folder(fs::path(paths.candidates[i]) / "configs")) continue;
    paths.root = paths.candidates[i];
    paths.origin = origins[i];
  }
  return paths;
}

InstallPaths install_paths() { return find_install_paths("/proc/self/exe", kSourceDirectory); }

}  // namespace ddpbench::bench
