// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What all gnuplot scripts share: the sheet with its captions, panels placed in pixels, and the
// look of lines and bars. Private to reports/.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/charts/gnuplot_script.h"

namespace ddpbench::report {

// `text` as a single-quoted gnuplot string in which nothing is special: control characters and
// broken UTF-8 are replaced, quotes doubled, very long text shortened.
std::string gnuplot_quote(std::string_view text);
// The same for labels of an axis, where gnuplot would take % for a format.
std::string gnuplot_tic(std::string_view text);

// Width in pixels that `text` takes at `font_px`, on the safe side.
double text_width(std::string_view text, double font_px);

// A line, with its markers: distinct in colour (Okabe and Ito's palette, distinct for colour-blind
// readers: https://jfly.uni-koeln.de/color/), in dashes and in shape.
struct LineLook {
  std::string color;  // "#0072B2"
  int dash = 1;       // gnuplot dashtype
  int marker = 7;     // gnuplot point type, filled
  int hollow = 6;     // the same shape, not filled
};
LineLook line_look(std::size_t style);

// "fillstyle pattern 4 ... linecolor rgb '...'" of a bar's part: colour and pattern, and
// brightness, differ between neighbours.
std::string part_look(std::size_t style);

// Edges in pixels from the left and from the top of the body, below the captions.
struct Box {
  double left = 0, right = 0, top = 0, bottom = 0;
};

inline constexpr double kKeyLine = 22;
// What stands before the text: how a line, its marker or a box looks; empty ones are not there.
struct KeyEntry {
  std::string line;   // "dashtype 2 linecolor rgb '#000000'"
  std::string point;  // "pointtype 7 linecolor rgb '#000000'"
  std::string box;    // as part_look
  std::string text;
};
double key_width(const std::vector<KeyEntry>& entries);

class GnuplotPicture {
 public:
  struct Line {
    std::string text;
    double font_px = 0;
  };
  // A body of `width` x `height` pixels below the title and above the notes of `caption`.
  GnuplotPicture(const ChartCaption& caption, const PictureOptions& options, double width,
                 double height);

  // Places the next plot's axes. Labels, tics and ranges of the one before are gone.
  void panel(const Box& box);
  // A key, from the upper left corner on, kKeyLine pixels an entry. It comes after all panels.
  // (gnuplot's own is as high as its fonts want, and drops entries that do not fit its plot.)
  void key(double left, double top, const std::vector<KeyEntry>& entries);
  // Text at a point of the body. `place`: left, center or right.
  void label(std::string_view text, double x, double y, double font_px, const char* place);

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    script_ += fmt::format(format, std::forward<Args>(args)...);
    script_ += '\n';
  }
  // Defines $NAME, to be plotted; rows are numbers. Returns "$NAME".
  std::string data(const std::vector<std::vector<double>>& rows);
  // "plot a, b, c". REQUIRES: not empty.
  void plot(const std::vector<std::string>& elements);

  std::string finish();

 private:
  double screen_x(double px) const { return px / width_; }
  double screen_y(double px) const { return 1 - (top_ + px) / height_; }
  // Sets a line whose upper edge is at `y` of the body; returns its lower edge.
  double caption_line(const Line& text, double y);

  std::string script_;
  double width_ = 0, height_ = 0, top_ = 0;
  double font_scale_ = 1;  // of pixels to the terminal's unit
  std::size_t blocks_ = 0, panels_ = 0;
};

}  // namespace ddpbench::report
