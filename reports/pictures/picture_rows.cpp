// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/picture_rows.h"

#include <algorithm>

namespace ddpbench::report::pictures {
namespace {

constexpr double kWords = 17;     // the line above a row
constexpr double kRowGap = 9;     // below it
constexpr double kAxisRoom = 38;  // below all rows
constexpr double kSide = 1;       // so that lines at the edges are not cut

}  // namespace

RowPanel::RowPanel(SvgName name, double width, std::size_t rows, double row_height)
    : name_(std::move(name)),
      width_(width),
      height_(static_cast<double>(rows) * (kWords + row_height + kRowGap)),
      row_height_(row_height) {}

void RowPanel::axis(const Axis& axis, const std::string& title) {
  axis_ = axis;
  draw_x_axis(markup_, {kSide, 0, width_ - kSide, height_}, axis, title);
}

Area RowPanel::row(const std::string& name, const std::string& figure, const ChartSeries& series) {
  const double top = static_cast<double>(next_++) * (kWords + row_height_ + kRowGap);
  const double room = width_ - text_width(figure) - 28;
  markup_.open("g", {{"class", line_class(series)}});
  svg_path(markup_, marker_path(line_marker(series), {9, top + 9}), "marker");
  markup_.close();
  // A border of words in the background's colour keeps grid lines from crossing them.
  svg_text(markup_, {20, top + 13}, Anchor::start, "row", fitted(name, room));
  svg_text(markup_, {width_ - kSide, top + 13}, Anchor::end, "row figure", figure);
  return {kSide, top + kWords, width_ - kSide, top + kWords + row_height_};
}

double RowPanel::x_of(double value) const {
  return kSide + (width_ - 2 * kSide) * std::clamp(axis_.position(value), 0.0, 1.0);
}

Panel RowPanel::finish() { return {std::move(name_), width_, height_ + kAxisRoom, markup_.take()}; }

Panel RowPanel::finish_zoomable(const Unit& unit) {
  Panel panel = finish();
  panel.zoom = ZoomAxis{kSide, width_ - kSide, axis_.end / unit.size};
  return panel;
}

}  // namespace ddpbench::report::pictures
