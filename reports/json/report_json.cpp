// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "reports/json/field_lists.h"
#include "reports/json/json_document.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

// Checks every number of a report, so that no field can be forgotten. `pointer` is that of `value`
// and is unchanged on return: millions of samples share one string.
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

void check_version(const JsonCursor& root) {
  if (!root.find("schema_version")) {
    root.fail("the key \"schema_version\" is missing: this is no report of ddpbench");
  }
  const JsonCursor version = root.at("schema_version");
  const auto found = version.integer<std::int64_t>();
  if (found != kSchemaVersion) {
    version.fail(fmt::format(
        "schema version {} is not known, this ddpbench reads {}; {}", found, kSchemaVersion,
        found > kSchemaVersion ? "use a newer ddpbench" : "the file is no ddpbench report"));
  }
}

Report read_document(const JsonDocument& document) {
  const JsonCursor root = document.root();
  // First: another version may differ in everything else.
  check_version(root);
  root.check();
  Report report;
  FieldReader reader(root);
  report_fields(reader, report);
  return report;
}

}  // namespace

Json to_json(const Report& report) {
  Json json = {{"schema_version", kSchemaVersion}};
  FieldWriter writer(json);
  report_fields(writer, report);
  std::string pointer;
  require_finite(json, pointer);
  return json;
}

std::string report_text(const Report& report) { return json_text(to_json(report)); }

void write_report(const Report& report, const std::string& path, bool force) {
  write_file(path, report_text(report), {.force = force});
}

Report parse_report(const std::string& text, const std::string& name) {
  return read_document(JsonDocument(text, name));
}

Report read_report(const std::string& path) {
  std::string text = read_report_text(path);
  const std::string name = input_name(path);
  const JsonDocument document(text, name);
  std::string().swap(text);  // the document has its own copy
  return read_document(document);
}

}  // namespace ddpbench::report
