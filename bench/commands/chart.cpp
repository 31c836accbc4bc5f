// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench chart`: draws what reports say, as a picture in a file; the scaling in the terminal,
// too.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "bench/commands/report_choice.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "reports/charts/chart_data.h"
#include "reports/pictures/picture.h"
#include "reports/table/table.h"

namespace ddpbench::bench {
namespace {

namespace pictures = report::pictures;

constexpr int kUsualWidth = 80;                     // where stdout is no terminal
constexpr int kLeastSide = 200, kMostSide = 10000;  // pixels

// Reads "880x400" as pixels. Throws ConfigError.
pictures::PictureSize picture_size(const std::string& text) {
  const std::vector<std::string> sides = split(text, 'x');
  const auto side = [&](std::size_t i) { return number_in<int>(sides[i]).value_or(0); };
  const auto fits = [](int pixels) { return pixels >= kLeastSide && pixels <= kMostSide; };
  if (sides.size() == 2 && fits(side(0)) && fits(side(1))) return {side(0), side(1)};
  throw ConfigError(
      fmt::format("chart: --size={}: expected WIDTHxHEIGHT in pixels, {} to {} each, as 880x400",
                  text, kLeastSide, kMostSide));
}

// The kind of this name.
const pictures::PictureKind& kind_of(std::string_view name) {
  return *std::ranges::find(pictures::picture_kinds(), name, &pictures::PictureKind::name);
}

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The extension of a picture's file name: "svg", "png" or "pdf".
std::string format_of(const std::string& path) {
  std::string extension = in_small_letters(std::filesystem::path(path).extension());
  for (const char* format : {"svg", "png", "pdf"}) {
    if (extension == std::string(".") + format) return format;
  }
  throw ConfigError(fmt::format(
      "chart: -o {}: the name must end in .svg, .png or .pdf, which says what to draw", path));
}

// The chart's kind where none is asked for: that of what the reports hold.
std::string usual_kind(std::span<const report::ReportFile> files) {
  const auto holds_runs = [](const auto& file) { return file.report.collectives.empty(); };
  return std::ranges::any_of(files, holds_runs) ? "scaling" : "bandwidth";
}

void check_contents(const std::string& kind, std::span<const report::ReportFile> files) {
  for (const report::ReportFile& file : files) {
    const bool of_collectives = !file.report.collectives.empty();
    if (of_collectives == (kind == "bandwidth")) continue;
    throw ConfigError(
        fmt::format("chart: {} holds {}collectives (ddpbench comm), which --kind=bandwidth draws, "
                    "and nothing else does",
                    file.name, of_collectives ? "" : "no "));
  }
}

// Removes the other rows. Throws ConfigError for a value that no row has.
void choose_collectives(const Criteria<report::CollectiveRow>& criteria,
                        std::vector<report::ReportFile>& files) {
  const auto rows_of = [](const auto& file) -> const auto& { return file.report.collectives; };
  criteria.check("chart", mapped(files | std::views::transform(rows_of) | std::views::join,
                                 [](const auto& row) { return &row; }));
  for (report::ReportFile& file : files) {
    std::erase_if(file.report.collectives, [&](const auto& row) { return !criteria.admits(row); });
  }
}

class Chart final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "...", paths_, "Reports; all runs of all of them go into one chart",
                      true);
    options.add("--kind", "", &kind_,
                "What to draw [scaling; bandwidth of reports of ddpbench comm]",
                one_of(names_of(pictures::picture_kinds())));
    options.add("--axis", "", &axis_, "accuracy: what to draw it over [seconds]",
                one_of({"seconds", "steps", "samples"}));
    filter_.define(options);
    collectives_.define(options);
    output_.define(options,
                   "Picture to write: .svg, or .png or .pdf through rsvg-convert; without it the "
                   "scaling is drawn in the terminal");
    options.add("--title", "TEXT", &title_, "The title, in place of the chart's own");
    options.add("--size", "WIDTHxHEIGHT", &size_,
                "Size of the picture in pixels (880x400), of 1/96 inch each in a PDF; type keeps "
                "its size [912 wide, as high as it needs]");
    options.add("--no-notes", "", &no_notes_,
                "Leave out the second line and the notes below; with -o they are printed instead");
  }

  int run() override {
    check_picture();
    std::vector<report::ReportFile> files = read_files("chart", paths_);
    const std::string kind = kind_.value_or(usual_kind(files));
    check_contents(kind, files);
    if (axis_ && kind != "accuracy") {
      throw ConfigError(fmt::format("chart: --axis is of --kind=accuracy, not of {}", kind));
    }
    choose_collectives(collectives_, files);
    filter_.apply("chart", files);
    const std::vector<report::Report> reports = reports_of(std::move(files));
    const auto axis = axis_ == "steps"     ? report::CourseAxis::steps
                      : axis_ == "samples" ? report::CourseAxis::samples
                                           : report::CourseAxis::seconds;
    const pictures::Drawing drawing = kind_of(kind).draw(reports, axis);
    if (!drawing.empty_reason.empty()) {
      std::string text =
          fmt::format("chart: nothing to draw of kind {} in {}: {}\n{}", kind,
                      fmt::join(paths_, ", "), drawing.empty_reason, interruptions(reports, 0));
      text.pop_back();
      throw ConfigError(text);
    }
    const int width = terminal_width();
    const std::string interrupted = interruptions(reports, width);
    if (output_.path.empty() && kind != "scaling") {
      throw ConfigError(fmt::format("chart: --kind={} is drawn in a file: -o FILE.svg", kind));
    }
    if (output_.path.empty()) {
      report::ScalingChart chart = scaling_chart(reports);
      change_words(chart.caption);
      say("{}{}", draw_text(chart, width > 0 ? width : kUsualWidth), interrupted);
      return 0;
    }
    const std::string format = format_of(output_.path), svg = svg_of(drawing);
    // A PNG whose size was not asked for has twice as many pixels, to be sharp.
    const int zoom = format == "png" && !size_ ? 2 : 1;
    output_.write(format == "svg" ? svg : rsvg_convert(svg, format, zoom));
    say("{}{}chart: {}\n", interrupted, left_out(drawing, width), output_.path);
    return 0;
  }

 private:
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
      if (output_.path.empty()) {
        throw ConfigError(
            "chart: --size is of a picture and needs -o FILE; in the terminal a chart takes the "
            "terminal's width");
      }
    }
    if (output_.path.empty()) return;
    format_of(output_.path);
    output_.check("chart", paths_);
  }

  void change_words(report::ChartCaption& caption) const {
    if (title_) caption.title = *title_;
    if (!no_notes_) return;
    caption.subtitle.clear();
    caption.notes.clear();
  }

  std::string svg_of(const pictures::Drawing& drawing) const {
    const auto make = [&](const pictures::Medium& medium) {
      pictures::Picture picture = drawing.picture(medium);
      change_words(picture.caption);
      return picture;
    };
    return size_ ? picture_file(make, picture_size(*size_))
                 : picture_file(make(pictures::Medium::file));
  }

  // What --no-notes leaves out of a picture, for the terminal.
  std::string left_out(const pictures::Drawing& drawing, int width) const {
    if (!no_notes_) return "";
    const report::ChartCaption caption = drawing.picture(pictures::Medium::file).caption;
    const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
    std::string text = wrap(printable("not in the picture: " + caption.subtitle), columns, 2);
    for (const std::string& note : caption.notes) text += wrap(printable("- " + note), columns, 2);
    return text;
  }

  std::vector<std::string> paths_;
  RunFilter filter_;
  Criteria<report::CollectiveRow> collectives_ = {
      {{"--op", "NAME,...", "bandwidth: only these collectives",
        [](const auto& row) { return row.operation; }},
       {"--ranks", "N,...", "bandwidth: only between these numbers of ranks",
        [](const auto& row) { return std::to_string(row.ranks); }}}};
  TextOutput output_;
  std::optional<std::string> kind_, axis_, size_, title_;
  bool no_notes_ = false;
};

}  // namespace

SubcommandEntry chart_entry() {
  return {"chart", "ddpbench chart REPORT... [OPTION]...",
          "draw scaling, steps, memory, buckets, accuracy, busy shares or collectives",
          [] { return std::make_unique<Chart>(); }};
}

}  // namespace ddpbench::bench
