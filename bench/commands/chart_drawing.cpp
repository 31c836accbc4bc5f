// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/chart_drawing.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::bench {
namespace {

namespace pictures = report::pictures;
using report::ChartKind;

constexpr int kLeastSide = 200, kMostSide = 10000;  // pixels

template <typename Data>
ChartDrawing drawing(Data chart, pictures::Picture (*picture)(const Data&, const pictures::Medium&),
                     std::string (*text)(const Data&, const report::TextOptions&)) {
  std::string reason = chart.empty_reason;
  const auto shared = std::make_shared<const Data>(std::move(chart));
  return {std::move(reason),
          [=](const pictures::Medium& medium) { return picture(*shared, medium); },
          [=](const report::TextOptions& options, const ChartWords& words) {
            Data changed = *shared;
            change_words(changed.caption, words);
            return text(changed, options);
          }};
}

// The whole text as a number of pixels; 0 when it is none.
int side(std::string_view text) { return number_in<int>(text).value_or(0); }

}  // namespace

ChartDrawing draw_chart(ChartKind kind, const std::vector<report::Report>& reports,
                        report::ChartRoom room, report::CourseAxis axis) {
  switch (kind) {
    case ChartKind::scaling:
      return drawing<report::ScalingChart>(scaling_chart(reports, room), pictures::scaling_picture,
                                           report::draw_text);
    case ChartKind::breakdown:
      return drawing<report::StackedChart>(breakdown_chart(reports, room),
                                           pictures::breakdown_picture, report::draw_breakdown);
    case ChartKind::memory:
      return drawing<report::StackedChart>(memory_chart(reports, room), pictures::memory_picture,
                                           report::draw_memory);
    case ChartKind::steps:
      return drawing<report::StepsChart>(steps_chart(reports, report::kStepBins, room),
                                         pictures::steps_picture, report::draw_text);
    case ChartKind::buckets:
      return drawing<report::BucketsChart>(buckets_chart(reports, room), pictures::buckets_picture,
                                           report::draw_text);
    case ChartKind::accuracy:
      return drawing<report::AccuracyChart>(accuracy_chart(reports, room, axis),
                                            pictures::accuracy_picture, report::draw_text);
    case ChartKind::busy:
      return drawing<report::StackedChart>(busy_chart(reports, room), pictures::busy_picture,
                                           report::draw_busy);
    case ChartKind::bandwidth:
      break;
  }
  return drawing<report::BandwidthChart>(bandwidth_chart(reports, room),
                                         pictures::bandwidth_picture, report::draw_text);
}

void change_words(report::ChartCaption& caption, const ChartWords& words) {
  if (words.title) caption.title = *words.title;
  if (words.notes) return;
  caption.subtitle.clear();
  caption.notes.clear();
}

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

}  // namespace ddpbench::bench
