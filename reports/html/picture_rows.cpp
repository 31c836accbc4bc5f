// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/html/picture_rows.h"

#include <algorithm>

namespace ddpbench::report::html {
namespace {

constexpr double kWords = 17;  // the line above a row
constexpr double kGap = 9;     // below it
constexpr double kBelow = 38;  // the axis
constexpr double kSide = 1;    // so that lines at the edges are not cut

}  // namespace

RowPicture::RowPicture(Markup& page, const SvgName& name, std::size_t rows, double row_height)
    : page_(page),
      height_(static_cast<double>(rows) * (kWords + row_height + kGap)),
      row_height_(row_height) {
  open_svg(page_, name, height_ + kBelow);
}

void RowPicture::axis(const Axis& axis, const std::string& title) {
  axis_ = axis;
  draw_x_axis(page_, {kSide, 0, kWidth - kSide, height_}, axis, title);
}

Area RowPicture::row(const std::string& name, const std::string& figure, std::size_t style) {
  const double top = static_cast<double>(next_++) * (kWords + row_height_ + kGap);
  const double room = kWidth - text_width(figure) - 28;
  page_.open("g", {{"class", style_class(style)}});
  svg_path(page_, marker_path(style, {9, top + 9}), "marker");
  page_.close();
  // Grid lines must not strike words through: words have a border in the background's colour.
  svg_text(page_, {20, top + 13}, Anchor::start, "row", fitted(name, room));
  svg_text(page_, {kWidth - kSide, top + 13}, Anchor::end, "row figure", figure);
  return {kSide, top + kWords, kWidth - kSide, top + kWords + row_height_};
}

double RowPicture::x_of(double value) const {
  return kSide + (kWidth - 2 * kSide) * std::clamp(axis_.position(value), 0.0, 1.0);
}

void RowPicture::finish() { page_.close(); }

}  // namespace ddpbench::report::html
