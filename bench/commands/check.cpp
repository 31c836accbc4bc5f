// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "bench/commands/report_choice.h"
#include "bench/commands/subcommand.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/run/report_output.h"
#include "reports/gate/gate.h"

namespace ddpbench::bench {
namespace {

using report::GateOptions;
using report::GateResult;
using report::GateVerdict;

struct Format {
  std::string_view name;
  std::string (*render)(const GateResult&, int width);
};

constexpr std::string_view kTable = "table";
constexpr Format kFormats[] = {
    {kTable, report::render_gate_table},
    {"markdown", [](const GateResult& r, int) { return report::render_gate_markdown(r); }},
    {"json", [](const GateResult& r, int) { return report::render_gate_json(r); }},
    {"junit", [](const GateResult& r, int) { return report::render_gate_junit(r); }},
    {"github", [](const GateResult& r, int) { return report::render_gate_github(r); }},
};

struct Limit {
  const char* option;
  double GateOptions::*member;
  const char* help;
};

constexpr Limit kGateLimits[] = {
    {"max-slowdown", &GateOptions::max_slowdown,
     "Slowdown of the median step (and of the throughput) that is no regression"},
    {"max-p95-slowdown", &GateOptions::max_tail_slowdown, "The same of the 95th percentile"},
    {"max-memory-growth", &GateOptions::max_memory_growth,
     "The same of the peak memory, the largest of all devices"},
    {"max-loss-increase", &GateOptions::max_loss_increase, "The same of the final training loss"},
    {"max-accuracy-drop", &GateOptions::max_accuracy_drop,
     "The same of the final test accuracy, in points"},
};

constexpr double kMaxAlpha = 50;  // percent

// Exit codes of docs/cli.md.
int exit_code(GateVerdict verdict) {
  if (verdict == GateVerdict::regressed) return 6;
  return verdict == GateVerdict::inconclusive ? 7 : 0;
}

// Only what was measured can be judged.
void refuse_predictions(std::span<const report::ReportFile> files) {
  for (const report::ReportFile& file : files) {
    if (std::ranges::any_of(file.report.runs, &report::Run::predicted))
      throw ConfigError(
          fmt::format("check: {} holds predictions; give what was measured", file.name));
  }
}

class Check final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("NEW", "...", candidate_, "Reports of what is to be checked", true);
    options.add_words("--baseline", "BASE...", base_, "Reports to hold them against", true);
    options.add("--alpha", "P", &alpha_, "Probability of any false alarm, at most",
                {.maximum = kMaxAlpha, .above_minimum = true, .below_maximum = true});
    for (std::size_t i = 0; i < std::size(kGateLimits); ++i) {
      limits_[i].value = 100 * (GateOptions{}.*kGateLimits[i].member);
      options.add(fmt::format("--{}", kGateLimits[i].option), "SHARE", &limits_[i],
                  kGateLimits[i].help, positive());
    }
    options.add("--allow-mismatch", "KEY,...", &allowed_,
                "Settings that may differ in a pair (device_model, optimizer/lr, ...)");
    options.add("--format", "", &format_, "How the result is written", one_of(names_of(kFormats)));
    output_.define(options);
    options.set_footer(
        "SHARE is 5% or 0.05. Several files, and repetitions within a file, are repetitions. Exit "
        "code: 0 passed or improved, 6 a regression, 7 inconclusive, 2 not comparable.");
  }

  int run() override {
    const Format& format = *std::ranges::find(kFormats, std::string_view(format_), &Format::name);
    const GateOptions options = gate_options();
    output_.check("check", candidate_);
    output_.check("check", base_);
    GateResult result;
    try {
      result = compare(options);
    } catch (const ConfigError& error) {
      leave_refusal(format, options, error.what());
      throw;
    }
    const std::string text = format.render(result, text_columns(output_.width()));
    if (format_ == "table" && !output_.is_file()) {
      say_table(text);
    } else {
      output_.write(text);
    }
    if (output_.is_file()) say("{}\ncheck: {}\n", report::gate_summary(result), output_.path);
    return exit_code(result.verdict);
  }

 private:
  GateResult compare(const GateOptions& options) const {
    refuse_repeated("check", candidate_, base_);
    std::vector<report::ReportFile> candidate_files = read_files("check", candidate_);
    std::vector<report::ReportFile> base_files = read_files("check", base_);
    refuse_predictions(candidate_files);
    refuse_predictions(base_files);
    const std::vector<report::Report> candidate = reports_of(std::move(candidate_files));
    const std::vector<report::Report> base = reports_of(std::move(base_files));
    const std::vector<std::string> keys = report::gate_setting_keys(candidate, base);
    for (const std::string& key : allowed_) check_word("check: --allow-mismatch", key, keys);
    return report::check_reports(candidate, base, options);
  }

  // Writes that nothing was compared in the format that was asked for, so that no one reads an
  // earlier file as the result of this check. The terminal needs no table: stderr says it.
  void leave_refusal(const Format& format, const GateOptions& options,
                     const std::string& reason) const {
    const GateResult refused{
        .options = options, .origin = {utc_timestamp(), {host_name()}}, .refusal = reason};
    if (!output_.is_file() && format.name == kTable) return;
    try {
      output_.write(format.render(refused, 0));
      if (output_.is_file()) say("check: {}\n", output_.path);
    } catch (const Error& error) {
      say_error("ddpbench: {}\n", error.what());
    }
  }

  GateOptions gate_options() const {
    GateOptions options;
    options.alpha = alpha_.value / 100;
    for (std::size_t i = 0; i < std::size(kGateLimits); ++i)
      options.*kGateLimits[i].member = limits_[i].value / 100;
    options.allow_mismatch = allowed_;
    return options;
  }

  std::vector<std::string> candidate_, base_, allowed_;
  std::string format_ = "table";
  TextOutput output_;
  Percent alpha_{5}, limits_[std::size(kGateLimits)];
};

}  // namespace

SubcommandEntry check_entry() {
  return {"check", "ddpbench check NEW... --baseline BASE... [OPTION]...",
          "hold new reports against a baseline and judge whether anything is worse",
          [] { return std::make_unique<Check>(); }};
}

}  // namespace ddpbench::bench
