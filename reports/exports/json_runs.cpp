// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "reports/exports/run_formats.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

struct JsonOf {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const auto& value) const { return value; }
};

void put_field(Json& object, const Field& field, const RunRow& row) {
  const FieldValue value = field.value(row);
  object[field.key] = std::visit(JsonOf{}, value.value);
  if (value.value.index() == 0) object[field.key + kReasonSuffix] = value.reason;
}

}  // namespace

std::string json_runs_text(std::span<const RunRow> rows, const Columns& columns) {
  Json runs = Json::array();
  for (const RunRow& row : rows) {
    Json object = Json::object();
    for (const Column* column : columns) {
      for (const Field& field : column->fields) put_field(object, field, row);
    }
    runs.push_back(std::move(object));
  }
  return json_text(runs);
}

}  // namespace ddpbench::report
