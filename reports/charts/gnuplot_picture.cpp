// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/gnuplot_picture.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr double kFont = 13, kTitleFont = 17, kNoteFont = 11.5;  // pixels
constexpr double kLeading = 1.35;                                // line height over font size
constexpr double kEdge = 16;
constexpr double kSample = 40;  // of a key's entry
// Widest usual letters of DejaVu Sans, which a plain Debian has, are 0.6 em on average.
constexpr double kEm = 0.6;
constexpr std::size_t kLongestText = 200;  // code points
constexpr double kPixelsAnInch = 96;
constexpr int kPngScale = 2;  // for screens with fine pixels

constexpr const char* kColors[] = {"#000000", "#D55E00", "#0072B2", "#009E73",
                                   "#CC79A7", "#E69F00", "#56B4E9", "#666666"};
// 3, dots, is the ideal's. Four dashes, six shapes, eight colours: 24 styles before one comes
// again.
constexpr int kDashes[] = {1, 2, 1, 4, 5, 2, 1, 4};
constexpr std::pair<int, int> kMarkers[] = {{13, 12}, {5, 4}, {7, 6}, {9, 8}, {11, 10}, {15, 14}};
constexpr const char* kParts[] = {
    "fillstyle pattern 5 border rgb '#000000' linecolor rgb '#CC79A7'",
    "fillstyle solid border rgb '#000000' linecolor rgb '#56B4E9'",
    "fillstyle solid border rgb '#000000' linecolor rgb '#0072B2'",
    "fillstyle pattern 4 border rgb '#000000' linecolor rgb '#D55E00'",
    "fillstyle pattern 1 border rgb '#000000' linecolor rgb '#009E73'",
    "fillstyle solid border rgb '#000000' linecolor rgb '#FFFFFF'",
    "fillstyle pattern 2 border rgb '#000000' linecolor rgb '#A06A00'",
    "fillstyle solid border rgb '#000000' linecolor rgb '#F0E442'",
};

// Length of the UTF-8 sequence that begins at `i`; 0 when there is none.
std::size_t sequence_length(std::string_view text, std::size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  const std::size_t length = byte < 0x80                    ? 1
                             : byte >= 0xC2 && byte < 0xE0  ? 2
                             : byte >= 0xE0 && byte < 0xF0  ? 3
                             : byte >= 0xF0 && byte <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// What XML has no place for, and C1 controls.
bool is_unprintable(std::string_view character) {
  if (character.size() == 1) return character[0] < ' ' || character[0] == '\x7f';
  if (character.size() == 2) return character[0] == '\xC2' && character[1] < '\xA0';
  const bool surrogate = character[0] == '\xED' && character[1] >= '\xA0';
  const bool no_character = character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF";
  return surrogate || no_character;
}

std::string clean(std::string_view text) {
  std::string result;
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) {
    if (count == kLongestText) return result + "...";
    const std::size_t length = sequence_length(text, i);
    const std::string_view character = text.substr(i, std::max<std::size_t>(length, 1));
    if (length == 0) {
      result += '?';
    } else {
      result += is_unprintable(character) ? " " : character;
    }
    i += character.size();
  }
  return result;
}

std::string replace_all(const std::string& text, char what, std::string_view with) {
  std::string result;
  for (const char c : text) {
    if (c == what) {
      result += with;
    } else {
      result += c;
    }
  }
  return result;
}

// Adds `text` in as many lines as `width` pixels need.
void append_lines(std::vector<GnuplotPicture::Line>& lines, const std::string& text, double width,
                  double font_px) {
  const auto columns =
      static_cast<std::size_t>(std::max(20.0, (width - 2 * kEdge) / (font_px * kEm)));
  std::istringstream wrapped(wrap(printable(text), columns, 0));
  for (std::string one; std::getline(wrapped, one);) lines.push_back({one, font_px});
}

double height_of(const std::vector<GnuplotPicture::Line>& lines) {
  double height = 0;
  for (const auto& one : lines) height += one.font_px * kLeading;
  return height;
}

// Of pixels to what the terminal counts fonts in: svg pixels, the others points of 1/72 inch.
double font_scale(PictureFormat format) {
  constexpr double kPoints = 72 / kPixelsAnInch;
  if (format == PictureFormat::svg) return 1;
  return format == PictureFormat::png ? kPngScale * kPoints : kPoints;
}

std::string terminal(const PictureOptions& options, double width, double height) {
  const char* white = options.transparent ? "" : " background rgb '#FFFFFF'";
  switch (options.format) {
    case PictureFormat::svg:
      return fmt::format(
          "svg noenhanced size {:.0f},{:.0f} dynamic font 'sans-serif,{:.0f}' name {}{}", width,
          height, kFont, gnuplot_quote(options.id), white);
    case PictureFormat::png:
      return fmt::format(
          "pngcairo noenhanced size {:.0f},{:.0f} font 'Sans,{:.2f}' linewidth {} pointscale {}{}",
          kPngScale * width, kPngScale * height, kFont * font_scale(options.format), kPngScale,
          kPngScale, options.transparent ? " transparent" : white);
    case PictureFormat::pdf:
      break;
  }
  return fmt::format(
      "pdfcairo noenhanced size {:.3f}in,{:.3f}in font 'Sans,{:.2f}' fontscale 0.75 linewidth 1{}",
      width / kPixelsAnInch, height / kPixelsAnInch, kFont * font_scale(options.format), white);
}

}  // namespace

std::string gnuplot_quote(std::string_view text) {
  return '\'' + replace_all(clean(text), '\'', "''") + '\'';
}

std::string gnuplot_tic(std::string_view text) {
  return replace_all(gnuplot_quote(text), '%', "%%");
}

double text_width(std::string_view text, double font_px) {
  return static_cast<double>(std::min(display_width(std::string(text)), kLongestText)) * font_px *
         kEm;
}

LineLook line_look(std::size_t style) {
  LineLook look;
  look.color = kColors[style % std::size(kColors)];
  look.dash = kDashes[style % std::size(kDashes)];
  std::tie(look.marker, look.hollow) = kMarkers[style % std::size(kMarkers)];
  return look;
}

std::string part_look(std::size_t style) { return kParts[style % std::size(kParts)]; }

double key_width(const std::vector<KeyEntry>& entries) {
  double widest = 0;
  for (const KeyEntry& entry : entries) widest = std::max(widest, text_width(entry.text, kFont));
  return kSample + 10 + widest + kEdge;
}

GnuplotPicture::GnuplotPicture(const ChartCaption& caption, const PictureOptions& options,
                               double width, double height)
    : width_(width), font_scale_(font_scale(options.format)) {
  std::vector<Line> above, below;
  if (options.captions) {
    append_lines(above, caption.title, width, kTitleFont);
    append_lines(above, caption.subtitle, width, kFont);
    for (const std::string& note : caption.notes) append_lines(below, note, width, kNoteFont);
  }
  top_ = above.empty() ? 0 : kEdge + height_of(above);
  height_ = top_ + height + (below.empty() ? 0 : kEdge + height_of(below));
  line("set encoding utf8");
  line("set terminal {}", terminal(options, width_, height_));
  line("set multiplot");
  double y = kEdge - top_;
  for (const Line& text : above) y = caption_line(text, y);
  y = height;
  for (const Line& text : below) y = caption_line(text, y);
  line(
      "set border 3 linecolor rgb '#000000'; set tics nomirror; set grid linetype 1 linewidth 0.6 "
      "linecolor rgb '#D8D8D8'");
  line("unset key");
}

double GnuplotPicture::caption_line(const Line& text, double y) {
  const double below = y + text.font_px * kLeading;
  label(text.text, kEdge, (y + below) / 2, text.font_px, "left");
  return below;
}

void GnuplotPicture::panel(const Box& box) {
  if (panels_++ > 0)
    line("unset label; unset arrow; unset logscale; set xtics auto; set ytics auto");
  line("set lmargin at screen {:.5f}; set rmargin at screen {:.5f}", screen_x(box.left),
       screen_x(box.right));
  line("set tmargin at screen {:.5f}; set bmargin at screen {:.5f}", screen_y(box.top),
       screen_y(box.bottom));
  line("unset xlabel; unset ylabel; unset title; set xrange [*:*]; set yrange [*:*]");
}

void GnuplotPicture::key(double left, double top, const std::vector<KeyEntry>& entries) {
  const double height = kKeyLine * static_cast<double>(entries.size());
  panel({left, left + kSample, top, top + height});
  line("unset border; unset tics; unset grid; set xrange [0:1]; set yrange [{}:0]", entries.size());
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const KeyEntry& entry = entries[i];
    const double y = static_cast<double>(i) + 0.5;
    if (!entry.line.empty()) {
      elements.push_back(data({{0, y}, {1, y}}) + " using 1:2 with lines " + entry.line);
    }
    if (!entry.point.empty()) {
      elements.push_back(data({{0.5, y}}) + " using 1:2 with points " + entry.point);
    }
    if (!entry.box.empty()) {
      elements.push_back(data({{0, y, 0, 1, y - 0.32, y + 0.32}}) +
                         " using 1:2:3:4:5:6 with boxxyerror " + entry.box);
    }
    label(entry.text, left + kSample + 10, top + y * kKeyLine, kFont, "left");
  }
  plot(elements);
}

void GnuplotPicture::label(std::string_view text, double x, double y, double font_px,
                           const char* place) {
  line("set label {} at screen {:.5f}, screen {:.5f} {} font ',{:.2f}'", gnuplot_quote(text),
       screen_x(x), screen_y(y), place, font_px * font_scale_);
}

std::string GnuplotPicture::data(const std::vector<std::vector<double>>& rows) {
  const std::string name = fmt::format("$data{}", blocks_++);
  line("{} << END", name);
  for (const auto& row : rows) line("{:.9g}", fmt::join(row, " "));
  line("END");
  return name;
}

void GnuplotPicture::plot(const std::vector<std::string>& elements) {
  line("plot {}", fmt::join(elements, ", "));
}

std::string GnuplotPicture::finish() {
  line("unset multiplot");
  return std::move(script_);
}

}  // namespace ddpbench::report
