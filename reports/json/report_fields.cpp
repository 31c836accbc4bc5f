// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The fields of a whole report, except for the schema version.
#include <array>

#include "base/error.h"
#include "reports/json/field_lists.h"

namespace ddpbench::report {
namespace {

constexpr auto kGeneratorFields = [](auto& f, auto& generator) {
  const char* reason = "not built in a git checkout";
  f.name("name", generator.name);
  f.value("version", generator.version);
  f.or_missing("git_commit", generator.git_commit, generator.git_reason, reason);
  f.or_missing("git_dirty", generator.git_dirty, generator.git_reason, reason);
};

constexpr auto kCpuFields = [](auto& f, auto& cpu) {
  f.known_text("model", cpu.model, kUnknown);
  f.known_count("cores", cpu.cores, kUnknown);
  f.known_count("processors", cpu.processors, kUnknown);
  f.known_count("l2_bytes", cpu.l2_bytes, kUnknown);
  f.known_count("l3_bytes", cpu.l3_bytes, kUnknown);
  f.known_count("memory_bytes", cpu.memory_bytes, kUnknown);
  f.value("features", cpu.features);
};

constexpr auto kEnvironmentFields = [](auto& f, auto& environment) {
  f.value("hosts", environment.hosts);
  f.later().known_text("launcher", environment.launcher, "no launcher started ddpbench");
  f.known_text("operating_system", environment.operating_system, kUnknown);
  f.known_text("kernel", environment.kernel, kUnknown);
  f.later().known_text("tcp_congestion_control", environment.tcp_congestion_control, kUnknown);
  f.object("cpu", environment.cpu, kCpuFields);
  f.rows("gpus", environment.gpus, [](auto& g, auto& gpu) { gpu_fields(g, gpu); });
  f.value("libraries", environment.libraries);
  f.value("variables", environment.variables);
};

// Those of Lead (metrics/ranking.h) with a rival.
constexpr std::array<std::string_view, 3> kVerdicts = {"ahead", "no_difference", "noise_unknown"};

constexpr auto kTuneSettingFields = [](auto& f, auto& setting) {
  f.value("first_bucket_mb", setting.first_bucket_mb);
  f.value("bucket_cap_mb", setting.bucket_cap_mb);
  f.value("overlap", setting.overlap);
  f.value("buckets", setting.buckets);
  f.figure("screening_ratio", setting.screening_ratio, "it did not succeed");
};

constexpr auto kTuneFields = [](auto& f, auto& tune) {
  const char* reason = "nothing was faster than the default, so nothing was confirmed";
  f.rows("settings", tune.settings, kTuneSettingFields);
  f.value("screening_rounds", tune.screening_rounds);
  f.index_or_null("candidate", tune.candidate, tune.settings.size());
  f.value("confirmation_pairs", tune.confirmation_pairs);
  f.figure("gain_ratio", tune.gain_ratio, reason);
  f.figure("gain_low_ratio", tune.gain_low_ratio, reason);
  f.figure("gain_high_ratio", tune.gain_high_ratio, reason);
  f.value("least_gain_ratio", tune.least_gain_ratio);
  f.value("recommended", tune.recommended);
  f.value("conclusion", tune.conclusion);
};

template <typename Fields, typename Cell>
void list_cell(Fields& f, Cell& cell, std::size_t runs) {
  const char* reason = "no repetition was timed";
  f.indices("runs", cell.runs, runs);
  f.figure("step_median_s", cell.step_median_s, reason);
  f.figure("ci_low_s", cell.ci_low_s, reason);
  f.figure("ci_high_s", cell.ci_high_s, reason);
  f.figure("ci_width_ratio", cell.ci_width_ratio, reason);
  f.or_null("wanted_width_ratio", cell.wanted_width_ratio);
  f.value("noisy", cell.noisy);
}

template <typename Fields, typename Row>
void list_recommendation(Fields& f, Row& row, std::size_t runs) {
  const char* reason = "the noise is unknown";
  f.value("work", row.work);
  f.name("name", row.name);
  f.indices("runs", row.runs, runs);
  f.name("rival", row.rival);
  f.indices("rival_runs", row.rival_runs, runs);
  f.word("verdict", row.verdict, kVerdicts);
  f.figure("ahead_ratio", row.ahead_ratio, reason);
  f.figure("ahead_low_ratio", row.ahead_low_ratio, reason);
  f.figure("ahead_high_ratio", row.ahead_high_ratio, reason);
  f.value("sentence", row.sentence);
}

template <typename Fields, typename Whole>
void list_report(Fields& f, Whole& report) {
  f.object("generator", report.generator, kGeneratorFields);
  f.status("status", report.status);
  f.require("status", report.status != Status::skipped && report.status != Status::diverged,
            "only runs can be skipped, or diverge");
  f.object_or_null(
      "error", report.error, [](auto& g, auto& error) { error_fields(g, error); },
      report.status == Status::failed);
  constexpr const char* kUntimed = "the time of the measurement is unknown";
  f.known_text("started_at", report.started_at, kUntimed);
  f.known_text("finished_at", report.finished_at, kUntimed);
  f.value("argv", report.argv);
  f.object("environment", report.environment, kEnvironmentFields);
  f.configuration("config", report.config_json);
  f.rows("runs", report.runs, [](auto& g, auto& run) { run_fields(g, run); });
  const std::size_t runs = report.runs.size();
  f.optional_rows("cells", report.cells, [runs](auto& g, auto& cell) { list_cell(g, cell, runs); });
  f.optional_rows("recommendations", report.recommendations,
                  [runs](auto& g, auto& row) { list_recommendation(g, row, runs); });
  f.optional_object("tune", report.tune, kTuneFields);
  collective_fields(f, report);
}

}  // namespace

void report_fields(FieldWriter& f, const Report& report) {
  ensure(report.status != Status::skipped && report.status != Status::diverged,
         "a report cannot be skipped or diverge, only its runs");
  ensure(report.status != Status::failed || report.error, "a failed report has no error");
  list_report(f, report);
}
void report_fields(FieldReader& f, Report& report) { list_report(f, report); }

}  // namespace ddpbench::report
