// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// html_pages FOLDER: writes the pages of sample_pages.h there.
#include <filesystem>
#include <fstream>

#include "tests/html/sample_pages.h"

int main(int count, char** arguments) {
  namespace report = ddpbench::report;
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  for (const auto& [name, input] : report::test::all_inputs()) {
    std::ofstream file(folder / (name + ".html"), std::ios::binary);
    if (!(file << report::html_page(input)).flush()) return 1;
  }
  return 0;
}
