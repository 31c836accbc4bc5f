// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Machine, software, command and configuration: the facts that a reader needs to believe a report
// or to repeat it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/data/report.h"
#include "reports/html/sections.h"
#include "reports/json/json_text.h"
#include "reports/pictures/numbers.h"

namespace ddpbench::report::html {
namespace {

using pictures::memory_unit;
using pictures::with_unit;

std::string bytes(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  return with_unit(value, memory_unit(value));
}

class Facts {
 public:
  explicit Facts(Markup& page) : page_(page) { page_.open("dl", {{"class", "facts"}}); }
  ~Facts() { page_.close(); }
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;
  void add(const std::string& name, const std::string& value) {
    if (!value.empty()) page_.open("div").leaf("dt", name).leaf("dd", value).close();
  }

 private:
  Markup& page_;
};

std::string build_of(const Generator& generator) {
  if (!generator.git_commit) {
    return fmt::format("{} ({})", generator.version, generator.git_reason);
  }
  const std::string_view changes = local_changes(generator);
  return fmt::format("{} ({}{}{})", generator.version, *generator.git_commit,
                     changes.empty() ? "" : ", ", changes);
}

void write_environment(Markup& page, const Report& report) {
  const Environment& environment = report.environment;
  const CpuInfo& cpu = environment.cpu;
  page.open("details").leaf("summary", "Environment");
  Facts facts(page);
  facts.add("hosts", fmt::format("{}", fmt::join(environment.hosts, ", ")));
  facts.add("launcher", environment.launcher);
  facts.add("system", environment.operating_system);
  facts.add("kernel", environment.kernel);
  facts.add("TCP congestion control", environment.tcp_congestion_control);
  facts.add("processor", cpu.model);
  facts.add("cores", fmt::format("{} ({} logical processors)", cpu.cores, cpu.processors));
  facts.add("caches", fmt::format("L2 {}, L3 {}", bytes(cpu.l2_bytes), bytes(cpu.l3_bytes)));
  facts.add("memory", bytes(cpu.memory_bytes));
  facts.add("instructions", fmt::format("{}", fmt::join(cpu.features, " ")));
  for (const GpuInfo& gpu : environment.gpus) {
    facts.add("GPU",
              fmt::format("{}, {}, driver {}", gpu.name, bytes(gpu.memory_bytes), gpu.driver));
  }
  for (const auto& [name, version] : environment.libraries) facts.add(name, version);
  for (const auto& [name, value] : environment.variables) facts.add("$" + name, value);
}

std::string pretty(const std::string& json) {
  const auto value = nlohmann::ordered_json::parse(json, nullptr, false);
  return value.is_discarded() ? json : json_text(value);
}

std::string or_not_recorded(const std::string& time) {
  return time.empty() ? "not recorded" : time;
}

void write_details(Markup& page, const std::string& name, const Report& report) {
  page.open("article").leaf("h3", name);
  {
    Facts facts(page);
    facts.add("status", std::string(to_string(report.status)));
    facts.add("started", or_not_recorded(report.started_at));
    facts.add("finished", or_not_recorded(report.finished_at));
    facts.add(report.generator.name, build_of(report.generator));
  }
  page.open("details").leaf("summary", "Command");
  page.leaf("pre", {{"tabindex", "0"}}, fmt::format("{}", fmt::join(report.argv, " "))).close();
  write_environment(page, report);
  page.close();
  page.open("details").leaf("summary", "Configuration");
  page.leaf("pre", {{"tabindex", "0"}}, pretty(report.config_json)).close();
  page.close().trusted("\n");
}

}  // namespace

void write_details(Markup& page, const HtmlInput& input) {
  open_section(page, "details", "Environment and configuration");
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    write_details(page, input.names[i], input.reports[i]);
  }
  page.close();
}

}  // namespace ddpbench::report::html
