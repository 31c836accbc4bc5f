// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "bench/options/config_file.h"
#include "bench/options/option_table.h"
#include "reports/table/table_notes.h"

namespace ddpbench::bench {
namespace {

using Texts = std::map<std::string, std::string>;

Texts config_texts(const report::Report& report) {
  std::set<std::string> free;
  for (const OptionDefinition& option : option_table()) {
    if (option.free_on_resume) free.insert(option.canonical_key());
  }
  Texts texts;
  for (const auto& [key, value] : flatten(nlohmann::json::parse(report.config_json))) {
    if (!free.contains(key)) texts["configuration " + key] = value.dump();
  }
  return texts;
}

// The variables of options are in the configuration already.
Texts environment_texts(const report::Report& report) {
  const report::Environment& environment = report.environment;
  Texts texts = {
      {"hosts", fmt::format("{}", fmt::join(environment.hosts, " "))},
      {"operating system", environment.operating_system},
      {"kernel", environment.kernel},
      {"TCP congestion control", environment.tcp_congestion_control},
      {"CPU", environment.cpu.model},
      {"CPU cores", std::to_string(environment.cpu.cores)},
      {"processors", std::to_string(environment.cpu.processors)},
      {"memory bytes", std::to_string(environment.cpu.memory_bytes)},
      {"program", report.generator.name},
      {"ddpbench version", report.generator.version},
      {"ddpbench commit", report.generator.git_commit.value_or("unknown")},
  };
  for (std::size_t i = 0; i < environment.gpus.size(); ++i) {
    const report::GpuInfo& gpu = environment.gpus[i];
    texts[fmt::format("GPU {}", i)] =
        fmt::format("{}, driver {}, {} bytes", gpu.name, gpu.driver, gpu.memory_bytes);
  }
  for (const auto& [name, version] : environment.libraries) texts["library " + name] = version;
  for (const auto& [name, value] : environment.variables) {
    if (!name.starts_with("DDPBENCH_")) texts["variable " + name] = value;
  }
  return texts;
}

void compare(const Texts& earlier, const Texts& now, std::vector<std::string>& differences) {
  const auto value = [](const Texts& texts, const std::string& key) {
    const auto at = texts.find(key);
    return at == texts.end() ? std::string("not set") : at->second;
  };
  Texts all = earlier;
  all.insert(now.begin(), now.end());
  for (const auto& [key, ignored] : all) {
    const std::string was = value(earlier, key);
    const std::string is = value(now, key);
    if (was != is) differences.push_back(fmt::format("{} was {}, is {}", key, was, is));
  }
}

}  // namespace

std::vector<std::string> resume_differences(const report::Report& earlier,
                                            const report::Report& now) {
  std::vector<std::string> differences;
  compare(config_texts(earlier), config_texts(now), differences);
  compare(environment_texts(earlier), environment_texts(now), differences);
  return differences;
}

void check_has_runs_to_resume(const report::Report& earlier, const std::string& path) {
  const std::string other = report::beyond_resuming(earlier);
  if (other.empty()) return;
  throw ConfigError(
      fmt::format("--resume={}: it is a report of {}, which cannot be continued", path, other));
}

void check_resumable(const report::Report& earlier, const report::Report& now,
                     const std::string& path) {
  const auto differences = resume_differences(earlier, now);
  if (differences.empty()) return;
  throw ConfigError(
      fmt::format("--resume={}: its runs and new ones would not be comparable: {}. Use the same "
                  "configuration and machine, or start a new report",
                  path, fmt::join(differences, "; ")));
}

}  // namespace ddpbench::bench
