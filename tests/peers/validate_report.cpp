// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// validate_report REPORT...: prints violations of the JSON Schema; exit code 1 if there are any.
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/reports/schema_validator.h"

int main(int argc, char** argv) {
  try {
    const ddpbench::test::SchemaValidator schema(DDPBENCH_REPORT_SCHEMA);
    bool valid = argc > 1;
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i]);
      for (const std::string& error : schema.errors(nlohmann::json::parse(file))) {
        std::cout << argv[i] << ": " << error << '\n';
        valid = false;
      }
    }
    return valid ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "validate_report: " << error.what() << '\n';
    return 2;
  }
}
