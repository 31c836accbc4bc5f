// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/reports/schema_validator.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#define VALIJSON_USE_EXCEPTIONS 1
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace ddpbench::test {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

struct SchemaValidator::Parsed {
  nlohmann::json text;  // the schema keeps references into it
  valijson::Schema schema;
};

SchemaValidator::SchemaValidator(const std::string& schema_path)
    : parsed_(std::make_unique<Parsed>()) {
  std::ifstream file(schema_path);
  if (!file) throw std::runtime_error("no schema at " + schema_path);
  parsed_->text = nlohmann::json::parse(file);
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(Adapter(parsed_->text), parsed_->schema);
}

SchemaValidator::~SchemaValidator() = default;

std::vector<std::string> SchemaValidator::errors(const nlohmann::json& document) const {
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  if (validator.validate(parsed_->schema, Adapter(document), &results)) return {};
  std::vector<std::string> lines;
  for (const auto& error : results) {
    std::string place;
    for (const std::string& step : error.context) place += step;
    lines.push_back(place + ": " + error.description);
  }
  return lines;
}

std::vector<std::string> schema_errors(const nlohmann::json& document,
                                       const std::string& schema_path) {
  static std::map<std::string, SchemaValidator> known;  // to read one takes longer than to validate
  return known.try_emplace(schema_path, schema_path).first->second.errors(document);
}

}  // namespace ddpbench::test
