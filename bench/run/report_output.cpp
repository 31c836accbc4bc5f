// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/report_output.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "bench/host/environment_capture.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "bench/plan/training_checkpoint.h"
#include "bench/rank/run_memory.h"
#include "bench/run/run_records.h"
#include "reports/json/report_json.h"
#include "reports/metrics/repetitions.h"
#include "reports/metrics/scaling.h"
#include "reports/table/table.h"
#include "reports/why/why.h"

namespace ddpbench::bench {
namespace {

// Returns ddpbench-<UTC time>.json, with a number when another run of the same second has taken it.
std::string default_report_path() {
  const std::string stem = "ddpbench-" + utc_time("%Y%m%dT%H%M%SZ");
  std::string path = stem + ".json";
  for (int i = 2; std::filesystem::exists(path); ++i) path = fmt::format("{}-{}.json", stem, i);
  return path;
}

void check_output_file(const std::string& path, const char* option, bool force) {
  try {
    check_output_path(path, force);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", option, error.what()));
  }
}

void save_trace(const RunsTrace& trace, std::size_t runs, const Options& options) {
  if (trace.runs == 0) {
    say("trace: no run left one now; {} is left as it was\n", options.trace_path);
    return;
  }
  write_file(options.trace_path, report::to_chrome_json(*trace.trace), {.force = options.force});
  say("trace: {}{}\n", options.trace_path,
      trace.runs == runs ? "" : fmt::format(" ({} of {} runs)", trace.runs, runs));
}

// What has become of --save-model; empty: that is not told.
std::string weights_line(const report::Report& report, const std::string& path) {
  if (std::ranges::any_of(report.runs, has_useless_weights)) {
    return fmt::format("weights: {} was not written: training diverged\n", path);
  }
  return report.status == report::Status::ok ? fmt::format("weights: {}\n", path) : "";
}

// What the runs of one report have in common, by the report's keys: machine, libraries, program and
// configuration. What may differ is left out.
std::map<std::string, std::string> common_texts(const report::Report& report) {
  report::Report head;
  head.generator = report.generator;
  head.environment = report.environment;
  head.config_json = report.config_json;
  for (report::GpuInfo& gpu : head.environment.gpus) {
    gpu.pcie_generation = gpu.pcie_width = Known<int>::missing("it changes with the load");
  }
  nlohmann::json all = to_json(head);
  for (const OptionDefinition& option : option_table()) {
    if (!option.has(kFreeOnResume)) continue;
    const nlohmann::json::json_pointer key("/config" + option.canonical_key());
    if (all.contains(key)) all[key.parent_pointer()].erase(key.back());
  }
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : flatten(all)) {
    const bool compared = key.starts_with("/config") || key.starts_with("/generator") ||
                          key.starts_with("/environment");
    // The variables of options are in the configuration already, and an empty list says nothing.
    const bool told = key.starts_with("/environment/variables/DDPBENCH_") ||
                      (value.is_structured() && value.empty());
    if (compared && !told) texts[key] = value.dump();
  }
  return texts;
}

std::string summary_text(const report::Report& report, const Options& options, int width) {
  if (!report.collectives.empty()) return report::render_table(report, width);
  const std::vector<report::RunRow> rows = report::all_runs(report);
  const std::string answer =
      report::answer_text(rows, width, asked_memory(options.memory_per_device));
  if (options.verbose)
    return answer + report::render_table(report, width) + "\n" +
           report::render_why(report, text_columns(width));
  return answer + report::compact_text(report::CondensedRows(rows).rows(), width);
}

}  // namespace

void check_rank_outputs(const Options& options) {
  if (!options.save_model.empty()) {
    check_output_file(options.save_model, "--save-model", options.force);
  }
  for (const Options& own : options.runs.empty() ? std::vector{options} : options.runs) {
    if (own.checkpoint.empty()) continue;
    check_output_file(own.checkpoint, "--checkpoint", replaces_checkpoint(own));
  }
}

ReportOutput::ReportOutput(const Options& options)
    : path_(options.json_path), replace_(options.force) {
  is_stream_ = path_ == kStandardStream || path_ == "/dev/stdout";
  if (!options.resume_path.empty()) {
    if (path_.empty() && ddpbench::is_stream(options.resume_path)) {
      throw ConfigError(
          fmt::format("--resume={}: name with --json where the report goes", options.resume_path));
    }
    if (path_.empty()) path_ = options.resume_path;
    // The report that is written includes the one that was read.
    std::error_code other;
    if (std::filesystem::equivalent(path_, options.resume_path, other)) replace_ = true;
  }
  asked_memory(options.memory_per_device);  // or it throws
  named_by_time_ = path_.empty();
  if (named_by_time_) path_ = default_report_path();
  if (!is_stream_) check_output_file(path_, "--json", replace_);
  const bool on_hosts = !options.hosts.empty() || !options.host_file.empty() ||
                        options.launcher == "mpirun" || options.launcher == "srun";
  if (!on_hosts) check_rank_outputs(options);
  if (!options.trace_path.empty()) check_output_file(options.trace_path, "--trace", options.force);
  if (is_stream_ && !options.dry_run) stream_ = take_standard_output();
}

void ReportOutput::reserve(report::Report report, const Options& options) {
  if (is_stream_) return;
  if (replace_ && std::filesystem::exists(path_)) return;
  report.status = report::Status::interrupted;
  complete_report(report, options);
  save(report);
}

void ReportOutput::save(const report::Report& report) {
  if (is_stream_) return;  // its reader wants one report, the last
  while (true) {
    try {
      report::write_report(report, path_, replace_);
      break;
    } catch (const ConfigError&) {
      const bool taken = !replace_ && named_by_time_ && std::filesystem::exists(path_);
      if (!taken) throw;
      path_ = default_report_path();
    }
  }
  replace_ = true;
}

void ReportOutput::save_so_far(report::Report& report, const Options& options) {
  const report::Status status = std::exchange(report.status, report::Status::interrupted);
  complete_report(report, options);
  try {
    save(report);
  } catch (const Error& error) {
    if (!warned_) say_error("ddpbench: {}; going on\n", error.what());
    warned_ = true;
  }
  report.status = status;
}

void ReportOutput::save_last(const report::Report& report) {
  is_stream_ ? write_standard_output(stream_, report::report_text(report)) : save(report);
}

std::string utc_timestamp() { return utc_time("%Y-%m-%dT%H:%M:%SZ"); }

report::Report begin_report(const Options& options, std::vector<std::string> arguments) {
  report::Report report;
  report.argv = std::move(arguments);
  report.started_at = utc_timestamp();
  report.generator = generator();
  report.config_json = to_json(options).dump();
  report.environment = environment_of_process(option_variables());
  return report;
}

void complete_report(report::Report& report, const Options& options) {
  report.finished_at = utc_timestamp();
  report::fill_scaling(report);
  report::fill_why(report);
  const bool wanted = options.until_ci.has_value();
  report::fill_cells(report, wanted ? std::optional(options.until_ci->value / 100) : std::nullopt);
  report.answer =
      report::answer_lines(report::all_runs(report), asked_memory(options.memory_per_device));
}

void finish_report(report::Report& report, const RunsTrace& trace, const Options& options,
                   ReportOutput& file) {
  complete_report(report, options);
  // The table comes first: should writing the file fail, the user has seen the results.
  const int width = terminal_width();
  say_table("\n" + summary_text(report, options, width));
  std::fflush(stdout);
  file.save_last(report);
  // The report is already written when the trace cannot be.
  if (!options.trace_path.empty()) save_trace(trace, report.runs.size(), options);
  if (!options.save_model.empty()) say("{}", weights_line(report, options.save_model));
  for (const report::Run& run : report.runs) {
    if (run.checkpoints.empty() || options.checkpoint.empty()) continue;
    say("checkpoint: {} (after step {})\n", options.checkpoint, run.checkpoints.back().step);
  }
  // A report on standard output has a name that only its reader knows.
  say("{}",
      report::interruption_lines(report, file.is_stream() ? "REPORT.json" : file.place(), width));
  if (!file.is_stream() && report.collectives.empty())
    say("more: ddpbench {}chart|html {}\n", report.tune ? "" : "why|", shell_quoted(file.place()));
  say("report: {}\n", file.place());
  if (is_quiet() && !file.is_stream()) put(stdout, file.place() + "\n");
}

std::vector<std::string> resume_differences(const report::Report& earlier,
                                            const report::Report& now) {
  auto was = common_texts(earlier), is = common_texts(now);
  for (const auto& [key, text] : was) is.try_emplace(key, "not set");
  std::vector<std::string> differences;
  for (const auto& [key, text] : is) {
    const std::string& before = was.try_emplace(key, "not set").first->second;
    if (before != text) differences.push_back(fmt::format("{} was {}, is {}", key, before, text));
  }
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
