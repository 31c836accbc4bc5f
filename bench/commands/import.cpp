// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "bench/commands/subcommand.h"
#include "bench/host/environment_capture.h"
#include "bench/host/terminal.h"
#include "reports/exports/run_formats.h"
#include "reports/imports/imports.h"
#include "reports/json/report_json.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"
#include "reports/metrics/scaling.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kLargestFile = 256 * kMiB;
constexpr double kLargestCount = 1e9, kLongStep_ms = 20'000;

// A time in the report's format; empty stays empty. Throws ConfigError for other texts.
std::string checked_time(const std::string& text) {
  if (text.empty() || report::unix_ms(text)) return text;
  throw ConfigError(fmt::format(
      "import: --measured-at={}: expected a time in UTC of the form 2026-01-31T12:00:00Z", text));
}

// Four digits: "120.7", "30500".
std::string digits(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0);
}

// "ddp, 1 device, 5 repetitions of 50 steps: 120.7 ms a step (117.4 to 120.9), 530 samples/s". Has
// no figures of repetitions that diverged, as no table has.
std::string words_of(const std::vector<report::Run>& all, std::vector<std::size_t> group) {
  const report::Run& run = all[group.front()];
  std::string text = fmt::format("{}, {}, ", run.strategy, counted(run.world_size, "device"));
  const std::string repetitions = counted(group.size(), "repetition");
  const std::size_t diverged = std::erase_if(
      group, [&all](std::size_t i) { return all[i].status == report::Status::diverged; });
  const std::string left_out =
      fmt::format("{} of {} left out, as training diverged", diverged, repetitions);
  if (group.empty()) return printable(text + left_out);
  const std::vector<double> steps_ms =
      mapped(group, [&all](std::size_t i) { return all[i].step.time_s->median * 1e3; });
  const double step_ms = report::median(steps_ms);
  const report::MedianSpread spread = report::median_spread(steps_ms);
  text += fmt::format("{} of {}: {} ms a step", counted(group.size(), "repetition"),
                      counted(all[group.front()].step.count, "step"), digits(step_ms));
  if (spread.low.value)
    text += fmt::format(" ({} to {})", digits(*spread.low.value), digits(*spread.high.value));
  const auto batch = static_cast<double>(run.global_batch_size);
  if (batch > 0) text += fmt::format(", {} samples/s", short_number(batch / step_ms * 1e3));
  if (step_ms >= kLongStep_ms) text += "; if the file has milliseconds, call that column ms";
  return printable(diverged > 0 ? text + "; " + left_out : text);
}

class Import final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words(
        "FILE", "", paths_,
        "Step times as csv or JSON: step, seconds (or ms), and where there are several "
        "repetition, rank, epoch, phase; memory and loss where known (docs/ci.md). "
        "Or JSON of hyperfine, Google Benchmark, pytest-benchmark. -: standard input",
        true);
    options.add("--as", "NAME", &program_.strategy,
                "What ran, as the strategy of the report: single, ddp, or a name of your own. "
                "Without it: the names in the file of a benchmark tool");
    options.add("--model", "NAME", &program_.model, "The network's name");
    options.add("--dataset", "NAME", &program_.dataset, "The data set's name");
    options.add("--device", "", &program_.device, "What it ran on",
                one_of({"cpu", "cuda", "unknown"}));
    options.add("--device-model", "NAME", &program_.device_model,
                "The device's model; if not given, for cpu this machine's processor");
    options.add("--precision", "", &program_.precision, "What it computed in",
                one_of({"fp32", "tf32", "bf16", "fp16"}));
    options.add("--batch-size", "N", &program_.batch_size,
                "Samples per rank and step; without it there are no samples per second",
                between(1, kLargestCount));
    options.add("--warmup-steps", "N", &warmup_steps_,
                "First steps of each repetition that do not count [0]", between(0, kLargestCount));
    options.add("--commit", "ID", &commit_, "Commit of the program that ran, for histories");
    options.add("--measured-at", "TIME", &measured_at_,
                "When it was measured, as 2026-01-31T12:00:00Z, for histories and `check`; not "
                "recorded if not given");
    output_.define(options,
                   "Report to write, - for standard output; the file's name with .json (of a JSON "
                   "file with .report.json) in the working directory when not given");
  }

  int run() override {
    if (paths_.size() != 1)
      throw ConfigError("import: give one file; several repetitions belong into one");
    const std::string name = input_name(paths_.front());
    complete_program();
    output_.name_after(paths_.front(), paths_.front().ends_with(".json") ? ".report.json" : ".json",
                       "import");
    output_.check("import", paths_);
    const report::StepTimes times = report::parse_step_times(
        read_file(paths_.front(), {.what = "", .most_bytes = kLargestFile, .streams = true}), name);
    check_name(times.rows);
    FileDescriptor stream;
    if (!output_.is_file()) stream = take_standard_output();
    report::Report result = begin(name);
    result.runs = report::imported_runs(times, program_, name);
    report::fill_scaling(result);
    report::fill_cells(result, std::nullopt);
    for (const auto& group : report::repetition_groups(report::all_runs(result)))
      say("{}", wrap(words_of(result.runs, group),
                     static_cast<std::size_t>(text_columns(terminal_width())), 2));
    if (!times.not_read.empty())
      say("not read: {}, which has no meaning here\n", printable(joined(times.not_read, ", ")));
    if (stream) {
      write_standard_output(stream, report::report_text(result));
      say("report: standard output\n");
    } else {
      report::write_report(result, output_.path, output_.force);
      say("report: {}\nnext: ddpbench check NEW.json --baseline {}\n", output_.path,
          shell_quoted(output_.path));
    }
    return 0;
  }

 private:
  // Files of benchmark tools name what ran.
  void check_name(const std::vector<report::StepTime>& rows) const {
    const std::string& name = rows[0].start.first;
    const bool several = std::ranges::any_of(
        rows, [&name](const report::StepTime& row) { return row.start.first != name; });
    if (program_.strategy.empty() ? !name.empty() : !several) return;
    throw ConfigError(
        several ? "import: --as names one program and the file several; leave it out"
                : "import: --as is missing; name what ran, as --as=ddp or a word of your own");
  }

  void complete_program() {
    const bool hexadecimal = commit_.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!commit_.empty() && (!hexadecimal || commit_.size() < 7 || commit_.size() > 40)) {
      throw ConfigError(fmt::format(
          "import: --commit={}: expected 7 to 40 hexadecimal digits, as git writes them", commit_));
    }
    program_.host = host_name();
    program_.warmup_steps = warmup_steps_.value_or(0);
    if (program_.device_model.empty() && program_.device == "cpu")
      program_.device_model = capture_environment({}, {}).cpu.model;
  }

  report::Report begin(const std::string& path) const {
    report::Report result;
    result.generator = generator();
    result.generator.name = "ddpbench-import";
    result.generator.git_commit = commit_.empty() ? std::nullopt : std::optional(commit_);
    result.generator.git_dirty.reset();
    result.generator.git_reason = "--commit was not given to import";
    // When the file was written says nothing: it may hold runs that took turns with others.
    result.started_at = result.finished_at = checked_time(measured_at_);
    result.argv = command_line;
    result.environment = capture_environment({}, {});
    result.config_json = nlohmann::json{{"imported", path}}.dump();
    return result;
  }

  std::vector<std::string> paths_;
  report::ImportedProgram program_;
  std::string commit_, measured_at_;
  std::optional<std::int64_t> warmup_steps_;
  TextOutput output_;
};

}  // namespace

SubcommandEntry import_entry() {
  return {"import", "ddpbench import FILE --as=NAME [OPTION]...",
          "make a report of the step times of a program of your own",
          [] { return std::make_unique<Import>(); }};
}

}  // namespace ddpbench::bench
