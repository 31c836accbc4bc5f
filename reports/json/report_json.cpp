// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/report_json.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "reports/json/fields.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

// Reading any file is bounded in time and memory. A report of 1,000 runs and 10 million samples has
// 220 MB and 10 million values.
constexpr JsonLimits kReportLimits = {.most_bytes = 512 * kMiB,
                                      // A report nests eight deep; only its configuration is free.
                                      .deepest = 64,
                                      .most_members = 1000,  // looking one up is linear
                                      .most_values = 20'000'000};

constexpr std::array<std::string_view, 2> kDevices = {"cpu", "cuda"};
constexpr std::array<std::string_view, 2> kModes = {"process", "thread"};
constexpr std::array<std::string_view, 3> kReductions = {"sum", "average", "max"};
constexpr std::array<std::string_view, 2> kBounds = {"memory_copy", "memory_reduce"};

constexpr const char* kNotMeasured = "not measured";

constexpr auto kGeneratorFields = [](auto& f, auto& generator) {
  const char* reason = "not built in a git checkout";
  f.value("name", generator.name, kNotEmpty);
  f.value("version", generator.version);
  f.known_beside("git_commit", generator.git_commit, generator.git_reason, reason);
  f.known_beside("git_dirty", generator.git_dirty, generator.git_reason, reason);
};

constexpr auto kCpuFields = [](auto& f, auto& cpu) {
  DDPBENCH_EACH(cpu, f.each_known(kUnknown), model, cores, processors, l2_bytes, l3_bytes,
                memory_bytes);
  f.value("features", cpu.features);
};

constexpr auto kGpuFields = [](auto& f, auto& gpu) {
  const auto may_lack = [&f](const char* key, auto& member) {
    f.lenient().known(key, member, kUnknown);
  };
  DDPBENCH_EACH(gpu, f.each_known(kUnknown), name, driver, memory_bytes);
  DDPBENCH_EACH(gpu, may_lack, uuid, pci_bus_id, compute_capability, multiprocessors, l2_bytes,
                numa_node, pcie_generation, pcie_width);
};

constexpr auto kEnvironmentFields = [](auto& f, auto& environment) {
  f.value("hosts", environment.hosts);
  f.lenient().known("launcher", environment.launcher, "no launcher started ddpbench");
  DDPBENCH_EACH(environment, f.each_known(kUnknown), operating_system, kernel);
  f.lenient().known("tcp_congestion_control", environment.tcp_congestion_control, kUnknown);
  f.value("cpu", environment.cpu, kCpuFields);
  f.value("gpus", environment.gpus, kGpuFields);
  DDPBENCH_EACH(environment, f.values(), libraries, variables);
};

constexpr auto kTuneSettingFields = [](auto& f, auto& setting) {
  DDPBENCH_EACH(setting, f.values(), first_bucket_mb, bucket_cap_mb, overlap, buckets);
  f.known("screening_ratio", setting.screening_ratio, "it did not succeed");
};

// The indices of a list of `count` elements.
Between indices(std::size_t count) { return {0, static_cast<std::int64_t>(count) - 1}; }

constexpr auto kTuneFields = [](auto& f, auto& tune) {
  const char* reason = "nothing was faster than the default, so nothing was confirmed";
  f.value("settings", tune.settings, kTuneSettingFields);
  f.value("screening_rounds", tune.screening_rounds);
  f.or_null("candidate", tune.candidate, indices(tune.settings.size()));
  f.value("confirmation_pairs", tune.confirmation_pairs);
  DDPBENCH_EACH(tune, f.each_known(reason), gain_ratio, gain_low_ratio, gain_high_ratio);
  DDPBENCH_EACH(tune, f.values(), least_gain_ratio, recommended, conclusion);
};

template <typename Fields, typename Cell>
void list_cell(Fields& f, Cell& cell, const Between& runs) {
  const char* reason = "no repetition was timed";
  f.value("runs", cell.runs, runs);
  f.require("runs", !cell.runs.empty(), "a cell has at least one run");
  DDPBENCH_EACH(cell, f.each_known(reason), step_median_s, ci_low_s, ci_high_s, ci_width_ratio);
  f.or_null("wanted_width_ratio", cell.wanted_width_ratio);
  f.value("noisy", cell.noisy);
}

constexpr auto kCollectiveFields = [](auto& f, auto& row) {
  f.value("op", row.operation);
  DDPBENCH_EACH(row, f.values(), backend, ranks);
  f.value("mode", row.mode, kModes);
  DDPBENCH_EACH(row, f.values(), bytes, count, data_type);
  f.or_null("redop", row.reduction, kReductions);
  DDPBENCH_EACH(row, f.values(), in_place, oversubscribed, warmup, iterations);
  f.value("device", row.device, kDevices);
  DDPBENCH_EACH(row, f.values(), gpus, late_iterations);
  f.optional("all_reduce", row.all_reduce);
  f.optional("emulated_link", row.emulated_link);
  f.known("device_model", row.device_model, "no rank reported it");
  f.known("time_s", row.time_s, "no timed iteration was finished", kStatisticsFields);
  DDPBENCH_EACH(row, f.each_known(kNotMeasured), algbw_gb_per_s, busbw_gb_per_s);
  f.known_beside("wrong", row.wrong, row.wrong_reason, kNotMeasured);
  f.known("bound_busbw_gb_per_s", row.bound_busbw_gb_per_s, kNotMeasured);
  f.or_null("bound", row.bound, kBounds);
  f.known("share_of_bound", row.share_of_bound, kNotMeasured);
};

constexpr auto kBandwidthFields = [](auto& f, auto& row) {
  f.value("working_set_bytes", row.working_set_bytes);
  DDPBENCH_EACH(row, f.each_or_null(), cores, gpu);
  f.value("copy_gb_per_s", row.copy_gb_per_s);
  f.known("reduce_gb_per_s", row.reduce_gb_per_s, kNotMeasured);
};

constexpr auto kReportFields = [](auto& f, auto& report) {
  constexpr const char* kUntimed = "the time of the measurement is unknown";
  f.value("generator", report.generator, kGeneratorFields);
  f.value("status", report.status);
  f.require("status", report.status != Status::skipped && report.status != Status::diverged,
            "only runs can be skipped, or diverge");
  if (report.status == Status::failed) {
    f.value("error", report.error, kErrorFields);
  } else {
    f.or_null("error", report.error, kErrorFields);
  }
  DDPBENCH_EACH(report, f.each_known(kUntimed), started_at, finished_at);
  f.value("argv", report.argv);
  f.value("environment", report.environment, kEnvironmentFields);
  f.value("config", report.config_json, kDocument);
  f.value("runs", report.runs, [](auto& g, auto& run) { run_fields(g, run); });
  const Between runs = indices(report.runs.size());
  f.optional("cells", report.cells, [&runs](auto& g, auto& cell) { list_cell(g, cell, runs); });
  f.optional("answer", report.answer);
  f.optional("tune", report.tune, kTuneFields);
  f.optional("collectives", report.collectives, kCollectiveFields);
  f.optional("memory_bandwidth", report.memory_bandwidth, kBandwidthFields);
};

void check_version(const Found& root) {
  const auto version = root.find("schema_version");
  if (!version) {
    root.fail("the key \"schema_version\" is missing: this is no report of ddpbench");
  }
  const std::int64_t found = version->integer({0, INT64_MAX});
  if (found != kSchemaVersion) {
    version->fail(fmt::format(
        "schema version {} is not known, this ddpbench reads {}; {}", found, kSchemaVersion,
        found > kSchemaVersion ? "use a newer ddpbench" : "the file is no ddpbench report"));
  }
}

}  // namespace

Json to_json(const Report& report) {
  ensure(report.status != Status::skipped && report.status != Status::diverged,
         "a report cannot be skipped or diverge, only its runs");
  ensure(report.status != Status::failed || report.error, "a failed report has no error");
  Json json = {{"schema_version", kSchemaVersion}};
  Fields<false> writer(json);
  kReportFields(writer, report);
  return json;
}

std::string report_text(const Report& report) { return json_text(to_json(report)); }

void write_report(const Report& report, const std::string& path, bool force) {
  write_file(path, report_text(report), {.force = force});
}

Report parse_report(const std::string& text, const std::string& name) {
  const Json json = parse_ordered_json(text, "report " + name, kReportLimits);
  const Found root{json, name};
  check_version(root);  // first: another version may differ in everything else
  Report report;
  Fields<true> reader(root);
  kReportFields(reader, report);
  return report;
}

Report read_report(const std::string& path) {
  return parse_report(
      read_file(path, {.what = "report ", .most_bytes = kReportLimits.most_bytes, .streams = true}),
      input_name(path));
}

}  // namespace ddpbench::report
