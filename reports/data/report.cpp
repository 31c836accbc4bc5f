// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace ddpbench::report {

std::string_view to_string(Status status) {
  return kStatusWords.at(static_cast<std::size_t>(status));
}

Figure DeviceRow::peak_memory() const {
  return peak_reason.empty() ? Figure::of(static_cast<double>(peak_bytes))
                             : Figure::missing(peak_reason);
}

Figure phase_of(const Phases& phases, const std::string& name) {
  const auto found = phases.find(name);
  return found == phases.end() ? Figure{} : found->second;
}

double seconds_of(const Phases& phases, const std::string& name) {
  return phase_of(phases, name).value.value_or(0);
}

std::string option_of(const Run& run, std::string_view name, std::string_view otherwise) {
  const auto found = run.strategy_options.find(std::string(name));
  return found == run.strategy_options.end() ? std::string(otherwise) : found->second;
}

bool is_complete(const Run& run) {
  return run.status == Status::ok || run.status == Status::diverged;
}

void mark_diverged(Run& run, const std::string& why) {
  run.status = Status::diverged;
  run.error = {.kind = "diverged", .message = why};
}

std::string missing_reason(const Run& run) {
  if (run.predicted) return kPredictedReason;
  constexpr const char* kReasons[] = {"not recorded", "training diverged", "the run failed",
                                      "the run was skipped", "the run was interrupted"};
  return kReasons[static_cast<std::size_t>(run.status)];
}

std::string missing_reason(const Figure& figure, const Run& run) {
  return figure.reason.empty() ? missing_reason(run) : figure.reason;
}

std::string hardware_words(const Environment& environment) {
  const std::string model = environment.cpu.model.empty() ? "unknown CPU" : environment.cpu.model;
  std::string text = fmt::format("{}, {}", model, counted(environment.cpu.cores, "core"));
  for (const GpuInfo& gpu : environment.gpus) text += ", " + gpu.name;
  return text;
}

std::string machine_words(const Report& report) {
  return fmt::format("{} ({})", fmt::join(report.environment.hosts, "+"),
                     hardware_words(report.environment));
}

std::string commit_words(const Generator& generator) {
  constexpr std::size_t kShort = 12;
  if (!generator.git_commit) return {};
  const char* changes = !generator.git_dirty   ? ", changes unknown"
                        : *generator.git_dirty ? " with changes"
                                               : "";
  return generator.git_commit->substr(0, kShort) + changes;
}

std::string build_words(const Generator& generator) {
  const std::string commit = commit_words(generator);
  return fmt::format("{} {}{}", generator.name, generator.version,
                     commit.empty() ? "" : fmt::format(" ({})", commit));
}

}  // namespace ddpbench::report
