// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/rescue.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;

// "report.json", "report-2.json", ...: the first that is free in `directory`.
fs::path free_name(const fs::path& directory, const fs::path& asked) {
  std::error_code ignored;
  fs::path name = directory / asked.filename();
  for (int i = 2; fs::exists(fs::symlink_status(name, ignored)); ++i) {
    name = directory / fmt::format("{}-{}{}", asked.stem().string(), i, asked.extension().string());
  }
  return name;
}

std::vector<fs::path> other_places() {
  std::error_code error;
  std::vector<fs::path> places;
  const fs::path working = fs::current_path(error);
  if (!error) places.push_back(working);
  const fs::path temporary = fs::temp_directory_path(error);
  if (!error) places.push_back(temporary);
  return places;
}

}  // namespace

std::optional<Rescue> write_or_rescue(const std::string& path,
                                      const std::function<void(const std::string& path)>& write) {
  try {
    write(path);
    return std::nullopt;
  } catch (const ConfigError& error) {
    for (const fs::path& place : other_places()) {
      const std::string name = free_name(place, path).string();
      try {
        write(name);
        return Rescue{name, fmt::format("{}; it is in {} instead", error.what(), name)};
      } catch (const ConfigError&) {
        // The next place may do.
      }
    }
    throw;
  }
}

}  // namespace ddpbench::bench
