// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/file_conflicts.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace ddpbench::bench {
namespace {

struct NamedFile {
  std::string_view option;
  const std::string* path;
};

// Also of files that are not there yet. Streams and devices are no files that could be lost.
bool name_one_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == kStandardStream || b == kStandardStream) return false;
  std::error_code ignored;
  if (std::filesystem::equivalent(a, b, ignored)) return is_file(a);
  const auto normal = [&](const std::string& path) {
    return std::filesystem::absolute(path, ignored).lexically_normal();
  };
  return !std::filesystem::exists(a, ignored) && normal(a) == normal(b);
}

}  // namespace

void check_file_conflicts(const Options& options) {
  const std::vector<NamedFile> written = {{"--json", &options.json_path},
                                          {"--trace", &options.trace_path},
                                          {"--save-model", &options.save_model}};
  const std::vector<NamedFile> read = {{"--resume", &options.resume_path},
                                       {"--config", &options.config_path},
                                       {"--load-model", &options.load_model},
                                       {"--hostfile", &options.host_file},
                                       {"model", &options.model}};
  const auto refuse = [](const NamedFile& result, const NamedFile& other) {
    if (!name_one_file(*result.path, *other.path)) return;
    throw ConfigError(fmt::format("{} and {} both name {}; give {} another name", result.option,
                                  other.option, *result.path, result.option));
  };
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) refuse(written[i], written[j]);
    for (const NamedFile& input : read) {
      const bool grows = written[i].option == "--json" && input.option == "--resume";
      if (!grows) refuse(written[i], input);
    }
  }
}

}  // namespace ddpbench::bench
