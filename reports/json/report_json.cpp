// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The whole report as JSON (schema/report-1.schema.json).
#include <cmath>

#include "base/error.h"
#include "reports/json/gpu_json.h"
#include "reports/json/json_fields.h"

namespace ddpbench::report {
namespace {

constexpr const char* kUnknown = "not reported by this system";

Json generator_json(const Generator& generator) {
  Json json = {{"name", generator.name}, {"version", generator.version}};
  const std::string reason =
      generator.git_reason.empty() ? "not built in a git checkout" : generator.git_reason;
  if (generator.git_commit) {
    json["git_commit"] = *generator.git_commit;
  } else {
    put_missing(json, "git_commit", reason);
  }
  if (generator.git_dirty) {
    json["git_dirty"] = *generator.git_dirty;
  } else {
    put_missing(json, "git_dirty", reason);
  }
  return json;
}

Json cpu_json(const CpuInfo& cpu) {
  Json json;
  put_text(json, "model", cpu.model, kUnknown);
  put_count(json, "cores", cpu.cores, kUnknown);
  put_count(json, "processors", cpu.processors, kUnknown);
  put_count(json, "l2_bytes", cpu.l2_bytes, kUnknown);
  put_count(json, "l3_bytes", cpu.l3_bytes, kUnknown);
  put_count(json, "memory_bytes", cpu.memory_bytes, kUnknown);
  json["features"] = cpu.features;
  return json;
}

Json environment_json(const Environment& environment) {
  Json json = {{"hosts", environment.hosts}};
  put_text(json, "operating_system", environment.operating_system, kUnknown);
  put_text(json, "kernel", environment.kernel, kUnknown);
  json["cpu"] = cpu_json(environment.cpu);
  json["gpus"] = Json::array();
  for (const GpuInfo& gpu : environment.gpus) json["gpus"].push_back(gpu_json(gpu));
  json["libraries"] = environment.libraries;
  json["variables"] = environment.variables;
  return json;
}

Json config_json(const std::string& text) {
  if (text.empty()) return Json::object();
  Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  ensure(config.is_object(), "the resolved configuration is not a JSON object: {}", text);
  return config;
}

Json cell_json(const CellSummary& cell) {
  const std::string reason = "no repetition was timed";
  Json json = {{"runs", cell.runs}};
  put_figure(json, "step_median_s", cell.step_median_s, reason);
  put_figure(json, "ci_low_s", cell.ci_low_s, reason);
  put_figure(json, "ci_high_s", cell.ci_high_s, reason);
  put_figure(json, "ci_width_ratio", cell.ci_width_ratio, reason);
  json["wanted_width_ratio"] = or_null(cell.wanted_width_ratio);
  json["noisy"] = cell.noisy;
  return json;
}

Json tune_json(const Tune& tune) {
  Json json = {{"settings", Json::array()}};
  for (const TuneSetting& setting : tune.settings) {
    Json row = {{"first_bucket_mb", setting.first_bucket_mb},
                {"bucket_cap_mb", setting.bucket_cap_mb},
                {"overlap", setting.overlap},
                {"buckets", setting.buckets}};
    put_figure(row, "screening_ratio", setting.screening_ratio, "it did not succeed");
    json["settings"].push_back(std::move(row));
  }
  const std::string reason = "nothing was faster than the default, so nothing was confirmed";
  json["screening_rounds"] = tune.screening_rounds;
  json["candidate"] = or_null(tune.candidate);
  json["confirmation_pairs"] = tune.confirmation_pairs;
  put_figure(json, "gain_ratio", tune.gain_ratio, reason);
  put_figure(json, "gain_low_ratio", tune.gain_low_ratio, reason);
  put_figure(json, "gain_high_ratio", tune.gain_high_ratio, reason);
  json["least_gain_ratio"] = tune.least_gain_ratio;
  json["recommended"] = tune.recommended;
  json["conclusion"] = tune.conclusion;
  return json;
}

// One place for the rule that numbers are finite, so that no field can be forgotten. `pointer` is
// the value's own and is as before on return: millions of samples share one string.
void require_finite(const Json& value, std::string& pointer) {
  if (value.is_number_float()) {
    ensure(std::isfinite(value.get<double>()), "the report's {} is {}, not a finite number",
           pointer, value.get<double>());
  }
  if (!value.is_structured()) return;
  const std::size_t length = pointer.size();
  std::size_t index = 0;
  for (auto child = value.begin(); child != value.end(); ++child, ++index) {
    pointer += '/';
    pointer += value.is_object() ? child.key() : std::to_string(index);
    require_finite(*child, pointer);
    pointer.resize(length);
  }
}

}  // namespace

std::string_view to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::failed:
      return "failed";
    case Status::skipped:
      return "skipped";
    case Status::interrupted:
      return "interrupted";
  }
  throw InternalError(fmt::format("unknown status {}", static_cast<int>(status)));
}

Json error_json(const ErrorInfo& error) {
  return {{"kind", error.kind},
          {"rank", or_null(error.rank)},
          {"host", or_null(error.host)},
          {"signal", or_null(error.signal)},
          {"step", or_null(error.step)},
          {"phase", or_null(error.phase)},
          {"operation", or_null(error.operation)},
          {"message", error.message}};
}

nlohmann::ordered_json to_json(const Report& report) {
  ensure(report.status != Status::skipped, "a report cannot be skipped, only its runs");
  ensure(report.status != Status::failed || report.error, "a failed report has no error");
  Json json = {{"schema_version", kSchemaVersion},
               {"generator", generator_json(report.generator)},
               {"status", to_string(report.status)},
               {"error", report.error ? error_json(*report.error) : Json(nullptr)},
               {"started_at", report.started_at},
               {"finished_at", report.finished_at},
               {"argv", report.argv},
               {"environment", environment_json(report.environment)},
               {"config", config_json(report.config_json)},
               {"runs", Json::array()}};
  for (const Run& run : report.runs) json["runs"].push_back(run_json(run));
  if (!report.cells.empty()) json["cells"] = Json::array();
  for (const CellSummary& cell : report.cells) json["cells"].push_back(cell_json(cell));
  if (report.tune) json["tune"] = tune_json(*report.tune);
  put_collectives(json, report);
  std::string pointer;
  require_finite(json, pointer);
  return json;
}

}  // namespace ddpbench::report
