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

// Writes the picture that `make` draws of `chart`, unless the chart is empty.
template <typename Chart, typename Make>
void write_picture(const std::filesystem::path& path, const Chart& chart, Make make) {
  if (chart.empty_reason.empty()) write(path, picture_file(make(chart)));
}

void write_pictures(const std::string& beginning, const std::vector<report::Report>& reports) {
  const auto in_file = [](auto* make) {
    return [=](const auto& chart) { return make(chart, Medium::file); };
  };
  write_picture(beginning + "-scaling.svg", scaling_chart(reports),
                in_file(pictures::scaling_picture));
  write_picture(beginning + "-breakdown.svg", breakdown_chart(reports),
                in_file(pictures::stacked_picture));
  write_picture(beginning + "-memory.svg", memory_chart(reports),
                in_file(pictures::stacked_picture));
  write_picture(beginning + "-steps.svg", steps_chart(reports), in_file(pictures::steps_picture));
  write_picture(beginning + "-buckets.svg", buckets_chart(reports),
                in_file(pictures::buckets_picture));
  write_picture(beginning + "-accuracy.svg", accuracy_chart(reports),
                in_file(pictures::accuracy_picture));
  write_picture(beginning + "-bandwidth.svg", bandwidth_chart(reports),
                in_file(pictures::bandwidth_picture));
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
