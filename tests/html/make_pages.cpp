// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// html_pages FOLDER: writes the pages of sample_pages.h and each of their pictures as files there.
#include <filesystem>
#include <fstream>

#include "reports/pictures/picture.h"
#include "tests/html/sample_pages.h"

namespace {

namespace report = ddpbench::report;
namespace pictures = report::pictures;
using pictures::Medium;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file << text << std::flush;
}

void write_pictures(const std::string& beginning, const std::vector<report::Report>& reports) {
  for (const pictures::PictureKind& kind : pictures::picture_kinds()) {
    const pictures::Drawing drawing = kind.draw(reports, report::CourseAxis::seconds);
    if (drawing.empty_reason.empty())
      write(beginning + "-" + std::string(kind.name) + ".svg",
            picture_file(drawing.picture(Medium::file)));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  for (const auto& [name, input] : report::test::all_inputs()) {
    write(folder / (name + ".html"), report::html_page(input));
    write_pictures((folder / name).string(), input.reports);
  }
  return 0;
}
