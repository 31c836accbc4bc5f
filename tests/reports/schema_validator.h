// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Validates JSON documents against a JSON Schema (draft 7).
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ddpbench::test {

// A schema, parsed once. Throws std::runtime_error when the file is absent or not a schema.
class SchemaValidator {
 public:
  explicit SchemaValidator(const std::string& schema_path);
  ~SchemaValidator();
  SchemaValidator(const SchemaValidator&) = delete;
  SchemaValidator& operator=(const SchemaValidator&) = delete;

  // One line for each error, with its place; empty when the document is valid.
  std::vector<std::string> errors(const nlohmann::json& document) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

// The same for one document. DDPBENCH_REPORT_SCHEMA is the path of the report's schema.
std::vector<std::string> schema_errors(const nlohmann::json& document,
                                       const std::string& schema_path);

}  // namespace ddpbench::test
