// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench chart`: draws what reports say, as a picture in a file or in the terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "bench/commands/rsvg_convert.h"
#include "bench/commands/run_filter.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "reports/charts/chart_data.h"
#include "reports/charts/chart_text.h"
#include "reports/json/report_json.h"
#include "reports/pictures/picture.h"
#include "reports/table/interruption.h"

namespace ddpbench::bench {
namespace {

using report::ChartKind;

constexpr int kUsualWidth = 80;  // where stdout is no terminal

std::vector<std::string> kind_words() {
  std::vector<std::string> known;
  for (const ChartKind kind : report::kChartKinds) known.emplace_back(to_string(kind));
  return known;
}

ChartKind kind_of(const std::string& word) {
  check_word("chart: --kind", word, kind_words());
  return *report::chart_kind(word);
}

// The extension of a picture's file name: ".svg", ".png" or ".pdf".
std::string format_of(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (extension == ".svg" || extension == ".png" || extension == ".pdf") return extension;
  throw ConfigError(fmt::format(
      "chart: -o {}: the name must end in .svg, .png or .pdf, which says what to draw", path));
}

// The bytes of a picture in `format`, which is an extension.
std::string picture_as(const std::string& format, std::string svg) {
  if (format == ".svg") return svg;
  try {
    return rsvg_convert(svg, format == ".png" ? PictureFormat::png : PictureFormat::pdf);
  } catch (const UnavailableError& error) {
    throw UnavailableError(fmt::format("chart: {}", error.what()));
  }
}

// Whether the terminal shows more than ASCII, by the usual variables in their usual order.
bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string word(value);
    std::ranges::transform(word, word.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return word.find("utf-8") != std::string::npos || word.find("utf8") != std::string::npos;
  }
  return false;
}

// One chart, to be drawn as a picture or as text.
struct Drawing {
  std::string empty_reason;
  std::function<report::pictures::Picture()> picture;
  std::function<std::string(const report::TextOptions&)> text;
};

template <typename Data, typename MakePicture>
Drawing drawing(Data chart, MakePicture picture,
                std::string (*text)(const Data&, const report::TextOptions&)) {
  std::string reason = chart.empty_reason;
  const auto shared = std::make_shared<const Data>(std::move(chart));
  return {std::move(reason), [=] { return picture(*shared); },
          [=](const auto& options) { return text(*shared, options); }};
}

Drawing draw(ChartKind kind, const std::vector<report::Report>& reports) {
  namespace pictures = report::pictures;
  const auto file = [](auto* make) {
    return [=](const auto& chart) { return make(chart, pictures::Medium::file); };
  };
  switch (kind) {
    case ChartKind::scaling:
      return drawing<report::ScalingChart>(scaling_chart(reports), pictures::scaling_picture,
                                           report::draw_text);
    case ChartKind::breakdown:
      return drawing<report::StackedChart>(
          breakdown_chart(reports), file(pictures::breakdown_picture), report::draw_breakdown);
    case ChartKind::memory:
      return drawing<report::StackedChart>(memory_chart(reports), file(pictures::memory_picture),
                                           report::draw_memory);
    case ChartKind::steps:
      return drawing<report::StepsChart>(steps_chart(reports), file(pictures::steps_picture),
                                         report::draw_text);
    case ChartKind::buckets:
      break;
  }
  return drawing<report::BucketsChart>(buckets_chart(reports), file(pictures::buckets_picture),
                                       report::draw_text);
}

// Throws for a report of `ddpbench comm`: no kind of chart shows collectives.
report::Report runs_of(const std::string& path) {
  report::Report report = report::read_report(path);
  if (report.collectives.empty()) return report;
  throw ConfigError(fmt::format(
      "chart: {} holds collectives (ddpbench comm); `ddpbench show` displays them", path));
}

class Chart final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "TEXT ... REQUIRED", paths_,
                      "Reports; all runs of all of them go into one chart", true);
    options.add("--kind", "KIND=scaling", &kind_,
                fmt::format("What to draw: {}", fmt::join(kind_words(), ", ")), kind_words());
    filter_.define(options);
    options.add("-o,--output", "FILE", &output_,
                "Picture to write: .svg, or .png or .pdf through rsvg-convert; without it the "
                "chart is drawn in the terminal");
    options.add("--force", "", &force_, "Replace FILE where it exists");
  }

  int run() override {
    const ChartKind kind = kind_of(kind_);
    std::optional<std::string> format;
    if (output_) {
      format = format_of(*output_);
      check_output("chart", *output_, paths_, force_);
    }
    std::vector<report::ReportFile> files;
    for (const std::string& path : paths_) files.push_back({path, runs_of(path)});
    filter_.apply("chart", files);
    std::vector<report::Report> reports;
    for (report::ReportFile& file : files) reports.push_back(std::move(file.report));
    const Drawing drawing = draw(kind, reports);
    if (!drawing.empty_reason.empty()) {
      throw ConfigError(fmt::format("chart: nothing to draw of kind {} in {}: {}", to_string(kind),
                                    fmt::join(paths_, ", "), drawing.empty_reason));
    }
    const int width = terminal_width();
    std::string interrupted;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      interrupted += report::interruption_lines(reports[i], paths_[i], width);
    }
    if (!format) {
      say("{}{}", drawing.text({width > 0 ? width : kUsualWidth, is_utf8_locale()}), interrupted);
      return 0;
    }
    write_file(*output_, picture_as(*format, picture_file(drawing.picture())), {.force = force_});
    say("{}chart: {}\n", interrupted, *output_);
    return 0;
  }

 private:
  std::vector<std::string> paths_;
  RunFilter filter_;
  std::string kind_ = "scaling";
  std::optional<std::string> output_;
  bool force_ = false;
};

}  // namespace

SubcommandEntry chart_entry() {
  return {"chart", "ddpbench chart REPORT... [OPTION]...",
          "draw scaling, step time, memory or buckets of reports",
          [] { return std::make_unique<Chart>(); }};
}

}  // namespace ddpbench::bench
