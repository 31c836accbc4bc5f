// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/report_reader.h"

#include <fmt/format.h>

#include <array>

#include "reports/collectives/collective_reader.h"
#include "reports/json/gpu_json.h"
#include "reports/json/json_document.h"
#include "reports/json/report_text.h"
#include "reports/json/run_reader.h"

namespace ddpbench::report {
namespace {

constexpr std::array<std::string_view, 4> kStatusWords = {"ok", "failed", "skipped", "interrupted"};
constexpr std::array<Status, 4> kStatuses = {Status::ok, Status::failed, Status::skipped,
                                             Status::interrupted};

void check_version(const JsonCursor& root) {
  const JsonCursor version = root.at("schema_version");
  const auto found = version.integer<std::int64_t>();
  if (found != kSchemaVersion) {
    version.fail(fmt::format(
        "schema version {} is not known, this ddpbench reads {}; {}", found, kSchemaVersion,
        found > kSchemaVersion ? "use a newer ddpbench" : "the file is no ddpbench report"));
  }
}

Generator read_generator(const JsonCursor& value) {
  Generator generator;
  generator.name = value.at("name").text_not_empty();
  generator.version = value.at("version").text();
  const JsonCursor commit = value.at("git_commit"), dirty = value.at("git_dirty");
  if (!commit.is_null()) generator.git_commit = commit.text();
  if (!dirty.is_null()) generator.git_dirty = dirty.boolean();
  for (const char* key : {"git_commit", "git_dirty"}) {
    if (value.at(key).is_null()) {
      generator.git_reason = value.at(std::string(key) + "_reason").text();
    }
  }
  return generator;
}

std::vector<std::string> read_texts(const JsonCursor& value) {
  std::vector<std::string> texts;
  for (const JsonCursor& element : value.elements()) texts.push_back(element.text());
  return texts;
}

std::map<std::string, std::string> read_text_map(const JsonCursor& value) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, member] : value.members()) texts[key] = member.text();
  return texts;
}

CpuInfo read_cpu(const JsonCursor& value) {
  CpuInfo cpu;
  cpu.model = value.at("model").text_or_empty();
  cpu.cores = value.at("cores").integer_or_zero<int>();
  cpu.processors = value.at("processors").integer_or_zero<int>();
  cpu.l2_bytes = value.at("l2_bytes").integer_or_zero<std::uint64_t>();
  cpu.l3_bytes = value.at("l3_bytes").integer_or_zero<std::uint64_t>();
  cpu.memory_bytes = value.at("memory_bytes").integer_or_zero<std::uint64_t>();
  cpu.features = read_texts(value.at("features"));
  return cpu;
}

Environment read_environment(const JsonCursor& value) {
  Environment environment;
  environment.hosts = read_texts(value.at("hosts"));
  environment.operating_system = value.at("operating_system").text_or_empty();
  environment.kernel = value.at("kernel").text_or_empty();
  environment.cpu = read_cpu(value.at("cpu"));
  for (const JsonCursor& gpu : value.at("gpus").elements()) {
    environment.gpus.push_back(read_gpu(gpu));
  }
  environment.libraries = read_text_map(value.at("libraries"));
  environment.variables = read_text_map(value.at("variables"));
  return environment;
}

std::string read_config(const JsonCursor& value) {
  value.members();  // throws unless it is an object
  return value.dump();
}

CellSummary read_cell(const JsonCursor& value, std::size_t runs) {
  CellSummary cell;
  for (const JsonCursor& index : value.at("runs").elements()) {
    cell.runs.push_back(index.integer<std::size_t>());
    if (cell.runs.back() >= runs) index.fail(fmt::format("there are {} runs", runs));
  }
  if (cell.runs.empty()) value.at("runs").fail("a cell has at least one run");
  cell.step_median_s = value.figure("step_median_s");
  cell.ci_low_s = value.figure("ci_low_s");
  cell.ci_high_s = value.figure("ci_high_s");
  cell.ci_width_ratio = value.figure("ci_width_ratio");
  const JsonCursor wanted = value.at("wanted_width_ratio");
  if (!wanted.is_null()) cell.wanted_width_ratio = wanted.number();
  cell.noisy = value.at("noisy").boolean();
  return cell;
}

TuneSetting read_tune_setting(const JsonCursor& value) {
  return {value.at("first_bucket_mb").number(), value.at("bucket_cap_mb").number(),
          value.at("overlap").boolean(), value.at("buckets").integer<int>(),
          value.figure("screening_ratio")};
}

Tune read_tune(const JsonCursor& value) {
  Tune tune;
  for (const JsonCursor& setting : value.at("settings").elements()) {
    tune.settings.push_back(read_tune_setting(setting));
  }
  tune.screening_rounds = value.at("screening_rounds").integer<int>();
  const JsonCursor candidate = value.at("candidate");
  if (!candidate.is_null()) tune.candidate = candidate.integer<std::size_t>();
  if (tune.candidate && *tune.candidate >= tune.settings.size()) {
    candidate.fail(fmt::format("there are {} settings", tune.settings.size()));
  }
  tune.confirmation_pairs = value.at("confirmation_pairs").integer<int>();
  tune.gain_ratio = value.figure("gain_ratio");
  tune.gain_low_ratio = value.figure("gain_low_ratio");
  tune.gain_high_ratio = value.figure("gain_high_ratio");
  tune.least_gain_ratio = value.at("least_gain_ratio").number();
  tune.recommended = value.at("recommended").boolean();
  tune.conclusion = value.at("conclusion").text();
  return tune;
}

Report read_document(const JsonDocument& document) {
  const JsonCursor root = document.root();
  // Of another version nothing else is known.
  check_version(root);
  root.check();
  Report report;
  report.generator = read_generator(root.at("generator"));
  report.status = read_status(root.at("status"));
  if (report.status == Status::skipped) root.at("status").fail("only runs can be skipped");
  const JsonCursor error = root.at("error");
  if (!error.is_null() || report.status == Status::failed) report.error = read_error(error);
  report.started_at = root.at("started_at").text();
  report.finished_at = root.at("finished_at").text();
  report.argv = read_texts(root.at("argv"));
  report.environment = read_environment(root.at("environment"));
  report.config_json = read_config(root.at("config"));
  for (const JsonCursor& run : root.at("runs").elements()) report.runs.push_back(read_run(run));
  read_collectives(root, report);
  if (const auto tune = root.find("tune")) report.tune = read_tune(*tune);
  if (const auto cells = root.find("cells")) {
    for (const JsonCursor& cell : cells->elements()) {
      report.cells.push_back(read_cell(cell, report.runs.size()));
    }
  }
  return report;
}

}  // namespace

Status read_status(const JsonCursor& value) {
  const std::string word = value.word(kStatusWords);
  std::size_t index = 0;
  while (kStatusWords[index] != word) ++index;
  return kStatuses[index];
}

ErrorInfo read_error(const JsonCursor& value) {
  ErrorInfo error;
  error.kind = value.at("kind").text_not_empty();
  const JsonCursor rank = value.at("rank"), signal = value.at("signal"), step = value.at("step");
  if (!rank.is_null()) error.rank = rank.integer<int>();
  error.host = value.at("host").text_or_empty();
  if (!signal.is_null()) error.signal = signal.integer<int>();
  if (!step.is_null()) error.step = step.integer<std::uint64_t>();
  error.phase = value.at("phase").text_or_empty();
  error.operation = value.at("operation").text_or_empty();
  error.message = value.at("message").text_not_empty();
  return error;
}

Report parse_report(const std::string& text, const std::string& name) {
  return read_document(JsonDocument(text, name));
}

Report read_report(const std::string& path) {
  std::string text = read_report_text(path);
  const JsonDocument document(text, path);
  std::string().swap(text);  // the document has its own copy of what is needed
  return read_document(document);
}

}  // namespace ddpbench::report
