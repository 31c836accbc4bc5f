// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What `ddpbench chart` draws: one chart of a kind, as a picture or as text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/charts/chart_data.h"
#include "reports/charts/chart_text.h"
#include "reports/pictures/picture.h"

namespace ddpbench::bench {

// How the words around a chart are changed.
struct ChartWords {
  std::optional<std::string> title;  // in place of the chart's own
  bool notes = true;                 // false: neither the second line nor the notes below
};

struct ChartDrawing {
  std::string empty_reason;  // why there is nothing to draw; then neither function may be called
  // The picture with all of its words.
  std::function<report::pictures::Picture(const report::pictures::Medium&)> picture;
  std::function<std::string(const report::TextOptions&, const ChartWords&)> text;
};

// The chart of these reports with what fits into `room`. `axis`: of kind accuracy.
ChartDrawing draw_chart(report::ChartKind kind, const std::vector<report::Report>& reports,
                        report::ChartRoom room, report::CourseAxis axis);

void change_words(report::ChartCaption& caption, const ChartWords& words);

// Reads "880x400" as pixels. Throws ConfigError.
report::pictures::PictureSize picture_size(const std::string& text);

}  // namespace ddpbench::bench
