// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench chart`: draws what reports say, as a picture in a file; the scaling in the terminal,
// too.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "bench/commands/report_choice.h"
#include "bench/commands/rsvg_convert.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "reports/charts/chart_data.h"
#include "reports/json/report_json.h"
#include "reports/pictures/picture.h"
#include "reports/table/table_notes.h"

namespace ddpbench::bench {
namespace {

namespace pictures = report::pictures;
using report::ChartKind;

constexpr int kUsualWidth = 80;                     // where stdout is no terminal
constexpr int kLeastSide = 200, kMostSide = 10000;  // pixels

// How the words around a chart are changed.
struct ChartWords {
  std::optional<std::string> title;  // in place of the chart's own
  bool notes = true;                 // false: neither the second line nor the notes below
};

struct ChartDrawing {
  std::string empty_reason;  // why there is nothing to draw; then no function may be called
  // The picture with all of its words.
  std::function<pictures::Picture(const pictures::Medium&)> picture;
  // Empty where the kind is a picture alone.
  std::function<std::string(const report::TextOptions&, const ChartWords&)> text = {};
};

void change_words(report::ChartCaption& caption, const ChartWords& words) {
  if (words.title) caption.title = *words.title;
  if (words.notes) return;
  caption.subtitle.clear();
  caption.notes.clear();
}

template <typename Data>
ChartDrawing drawing(Data chart,
                     pictures::Picture (*picture)(const Data&, const pictures::Medium&)) {
  std::string reason = chart.empty_reason;
  return {std::move(reason), [=, shared = std::make_shared<const Data>(std::move(chart))](
                                 const pictures::Medium& m) { return picture(*shared, m); }};
}

ChartDrawing scaling_drawing(report::ScalingChart chart) {
  ChartDrawing result = drawing(chart, pictures::scaling_picture);
  result.text = [chart = std::move(chart)](const report::TextOptions& options,
                                           const ChartWords& words) {
    report::ScalingChart changed = chart;
    change_words(changed.caption, words);
    return draw_text(changed, options);
  };
  return result;
}

// The chart of these reports with what fits into `room`. `axis`: of kind accuracy.
ChartDrawing draw_chart(ChartKind kind, const std::vector<report::Report>& reports,
                        report::ChartRoom room, report::CourseAxis axis) {
  switch (kind) {
    case ChartKind::scaling:
      return scaling_drawing(scaling_chart(reports, room));
    case ChartKind::breakdown:
      return drawing(report::breakdown_chart(reports), pictures::breakdown_picture);
    case ChartKind::memory:
      return drawing(report::memory_chart(reports), pictures::memory_picture);
    case ChartKind::steps:
      return drawing(report::steps_chart(reports), pictures::steps_picture);
    case ChartKind::buckets:
      return drawing(report::buckets_chart(reports), pictures::buckets_picture);
    case ChartKind::accuracy:
      return drawing(report::accuracy_chart(reports, axis), pictures::accuracy_picture);
    case ChartKind::busy:
      return drawing(report::busy_chart(reports), pictures::busy_picture);
    case ChartKind::bandwidth:
      break;
  }
  return drawing(report::bandwidth_chart(reports), pictures::bandwidth_picture);
}

// The whole text as a number of pixels; 0 when it is none.
int side(std::string_view text) { return number_in<int>(text).value_or(0); }

// Reads "880x400" as pixels. Throws ConfigError.
pictures::PictureSize picture_size(const std::string& text) {
  const std::size_t cross = text.find('x');
  const std::string_view whole = text;
  if (cross != std::string::npos) {
    const pictures::PictureSize size = {side(whole.substr(0, cross)),
                                        side(whole.substr(cross + 1))};
    const auto fits = [](int pixels) { return pixels >= kLeastSide && pixels <= kMostSide; };
    if (fits(size.width) && fits(size.height)) return size;
  }
  throw ConfigError(
      fmt::format("chart: --size={}: expected WIDTHxHEIGHT in pixels, {} to {} each, as 880x400",
                  text, kLeastSide, kMostSide));
}

std::vector<std::string> kind_words() {
  std::vector<std::string> known;
  for (const ChartKind kind : report::kChartKinds) known.emplace_back(to_string(kind));
  return known;
}

std::vector<std::string> axis_words() {
  std::vector<std::string> known;
  for (const report::CourseAxis axis : report::kCourseAxes) known.emplace_back(to_string(axis));
  return known;
}

report::CourseAxis axis_of(const std::optional<std::string>& word) {
  if (!word) return report::CourseAxis::seconds;
  return *word == to_string(report::CourseAxis::steps) ? report::CourseAxis::steps
                                                       : report::CourseAxis::seconds;
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

// The bytes of a picture in `format`, which is an extension. Without `exact` pixels a PNG has twice
// as many, to be sharp.
std::string picture_as(const std::string& format, std::string svg, bool exact) {
  if (format == ".svg") return svg;
  const PictureFormat png = exact ? PictureFormat::png : PictureFormat::fine_png;
  try {
    return rsvg_convert(svg, format == ".png" ? png : PictureFormat::pdf);
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

// The chart's kind where none is asked for: that of what the reports hold.
ChartKind usual_kind(std::span<const report::ReportFile> files) {
  const auto collectives = std::ranges::count_if(
      files, [](const report::ReportFile& file) { return !file.report.collectives.empty(); });
  return collectives == std::ssize(files) ? ChartKind::bandwidth : ChartKind::scaling;
}

// Throws for a report that lacks what the kind draws.
void check_contents(ChartKind kind, std::span<const report::ReportFile> files) {
  for (const report::ReportFile& file : files) {
    const bool of_collectives = !file.report.collectives.empty();
    if (of_collectives == (kind == ChartKind::bandwidth)) continue;
    if (of_collectives) {
      throw ConfigError(
          fmt::format("chart: {} holds collectives (ddpbench comm), which --kind=bandwidth draws, "
                      "and --kind={} does not",
                      file.name, to_string(kind)));
    }
    throw ConfigError(fmt::format(
        "chart: {} holds no collectives (ddpbench comm), and --kind=bandwidth draws nothing else",
        file.name));
  }
}

// The options that choose among the rows of `ddpbench comm`.
class CollectiveFilter {
 public:
  void define(CommandOptions& options) {
    options.add("--op", "NAME,...", &operations_, "bandwidth: only these collectives");
    options.add("--ranks", "N,...", &ranks_, "bandwidth: only between so many ranks");
  }
  bool is_given() const { return !operations_.empty() || !ranks_.empty(); }

  // Removes the other rows. Throws ConfigError for a value that no row has, and when none is left.
  void apply(std::vector<report::ReportFile>& files) const {
    std::vector<std::string> operations, ranks;
    for (const report::ReportFile& file : files) {
      for (const report::CollectiveRow& row : file.report.collectives) {
        operations.push_back(row.operation);
        ranks.push_back(std::to_string(row.ranks));
      }
    }
    for (const std::string& word : operations_) check_word("chart: --op", word, each(operations));
    for (const std::string& word : ranks_) check_word("chart: --ranks", word, each(ranks));
    std::size_t left = 0;
    for (report::ReportFile& file : files) {
      std::erase_if(file.report.collectives, [&](const report::CollectiveRow& row) {
        return !admits(operations_, row.operation) || !admits(ranks_, std::to_string(row.ranks));
      });
      left += file.report.collectives.size();
    }
    if (left == 0 && is_given()) {
      throw ConfigError("chart: no collective is left by --op and --ranks");
    }
  }

 private:
  static std::vector<std::string> each(std::vector<std::string> words) {
    std::ranges::sort(words);
    words.erase(std::ranges::unique(words).begin(), words.end());
    return words;
  }
  static bool admits(const std::vector<std::string>& wanted, const std::string& word) {
    return wanted.empty() || std::ranges::find(wanted, word) != wanted.end();
  }

  std::vector<std::string> operations_, ranks_;
};

class Chart final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "...", paths_, "Reports; all runs of all of them go into one chart",
                      true);
    options.add("--kind", "", &kind_,
                "What to draw [scaling; bandwidth of reports of ddpbench comm]",
                one_of(kind_words()));
    options.add("--axis", "", &axis_, "accuracy: what to draw it over [seconds]",
                one_of(axis_words()));
    filter_.define(options);
    collectives_.define(options);
    options.add("-o,--output", "FILE", &output_,
                "Picture to write: .svg, or .png or .pdf through rsvg-convert; without it the "
                "scaling is drawn in the terminal");
    options.add("--title", "TEXT", &words_.title, "The title, in place of the chart's own");
    options.add("--size", "WIDTHxHEIGHT", &size_,
                "Size of the picture in pixels (880x400), of 1/96 inch each in a PDF; type keeps "
                "its size [912 wide, as high as it needs]");
    options.add("--no-notes", "", &no_notes_,
                "Leave out the second line and the notes below; with -o they are printed instead");
    options.add("--force", "", &force_, "Replace FILE where it exists");
  }

  int run() override {
    std::optional<ChartKind> kind;
    if (kind_) kind = report::chart_kind(*kind_);
    const report::CourseAxis axis = axis_of(axis_);
    check_picture();
    words_.notes = !no_notes_;
    std::vector<report::ReportFile> files;
    for (const std::string& path : paths_) files.push_back({path, report::read_report(path)});
    if (!kind) kind = usual_kind(files);
    check_contents(*kind, files);
    if (axis_ && *kind != ChartKind::accuracy) {
      throw ConfigError(
          fmt::format("chart: --axis is of --kind=accuracy, not of {}", to_string(*kind)));
    }
    choose(*kind, files);
    std::vector<report::Report> reports;
    for (report::ReportFile& file : files) reports.push_back(std::move(file.report));
    const ChartDrawing drawing = draw_chart(
        *kind, reports, output_ ? report::ChartRoom::picture : report::ChartRoom::terminal, axis);
    if (!drawing.empty_reason.empty()) {
      throw ConfigError(without_last_newline(
          fmt::format("chart: nothing to draw of kind {} in {}: {}\n{}", to_string(*kind),
                      fmt::join(paths_, ", "), drawing.empty_reason, interruptions(reports, 0))));
    }
    const int width = terminal_width();
    const std::string interrupted = interruptions(reports, width);
    if (!output_ && !drawing.text) {
      throw ConfigError(
          fmt::format("chart: --kind={} is drawn in a file: -o FILE.svg", to_string(*kind)));
    }
    if (!output_) {
      say("{}{}", drawing.text({width > 0 ? width : kUsualWidth, is_utf8_locale()}, words_),
          interrupted);
      return 0;
    }
    const std::string svg = svg_of(drawing), format = format_of(*output_);
    write_file(*output_, picture_as(format, svg, size_.has_value()), {.force = force_});
    say("{}{}chart: {}\n", interrupted, left_out(drawing, width), *output_);
    return 0;
  }

 private:
  static std::string without_last_newline(std::string text) {
    text.pop_back();
    return text;
  }

  // How to go on with the reports that were interrupted.
  std::string interruptions(const std::vector<report::Report>& reports, int width) const {
    std::string text;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      text += report::interruption_lines(reports[i], paths_[i], width);
    }
    return text;
  }

  // Before anything is read.
  void check_picture() const {
    if (size_) {
      picture_size(*size_);
      if (!output_) {
        throw ConfigError(
            "chart: --size is of a picture and needs -o FILE; in the terminal a chart takes the "
            "terminal's width");
      }
    }
    if (!output_) return;
    format_of(*output_);
    check_output("chart", *output_, paths_, force_);
  }

  void choose(ChartKind kind, std::vector<report::ReportFile>& files) const {
    const bool bandwidth = kind == ChartKind::bandwidth;
    if (bandwidth ? filter_.is_given() : collectives_.is_given()) {
      throw ConfigError(fmt::format("chart: --kind={} takes {}, which choose {}", to_string(kind),
                                    bandwidth ? "--op and --ranks"
                                              : "--strategy, --gpus, --batch-size, --status and "
                                                "--where",
                                    bandwidth ? "collectives" : "runs"));
    }
    if (bandwidth) {
      collectives_.apply(files);
    } else {
      filter_.apply("chart", files);
    }
  }

  std::string svg_of(const ChartDrawing& drawing) const {
    const auto make = [&](const report::pictures::Medium& medium) {
      report::pictures::Picture picture = drawing.picture(medium);
      change_words(picture.caption, words_);
      return picture;
    };
    if (!size_) return picture_file(make(report::pictures::Medium::file));
    try {
      return picture_file(make, picture_size(*size_));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("chart: --size={}", error.what()));
    }
  }

  // What --no-notes leaves out of a picture, for the terminal.
  std::string left_out(const ChartDrawing& drawing, int width) const {
    if (words_.notes) return "";
    const report::ChartCaption caption = drawing.picture(report::pictures::Medium::file).caption;
    const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
    std::string text = wrap(printable("not in the picture: " + caption.subtitle), columns, 2);
    for (const std::string& note : caption.notes) text += wrap(printable("- " + note), columns, 2);
    return text;
  }

  std::vector<std::string> paths_;
  RunFilter filter_;
  CollectiveFilter collectives_;
  ChartWords words_;
  std::optional<std::string> kind_, axis_, output_, size_;
  bool force_ = false, no_notes_ = false;
};

}  // namespace

SubcommandEntry chart_entry() {
  return {"chart", "ddpbench chart REPORT... [OPTION]...",
          "draw scaling, steps, memory, buckets, accuracy, busy shares or collectives",
          [] { return std::make_unique<Chart>(); }};
}

}  // namespace ddpbench::bench
