// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The section of pictures. Each is a <figure> with a legend whose entries switch shapes on and off,
// the picture's panels, its notes, and the same data as a table.
#include <fmt/format.h>

#include <algorithm>

#include "reports/html/page.h"
#include "reports/html/sections.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::html {
namespace {

using pictures::Medium;
using pictures::Panel;
using pictures::Picture;

void write_legend(Markup& page, const Picture& picture) {
  if (picture.legend.empty()) return;
  page.open("ul", {{"class", "legend"}, {"aria-label", "Legend"}});
  for (std::size_t i = 0; i < picture.legend.size(); ++i) {
    page.open("li").open(
        "button",
        {{"type", "button"}, {"aria-pressed", "true"}, {"data-toggle", std::to_string(i)}});
    page.open("svg", {{"viewBox",
                       fmt::format("0 0 {} {}", pictures::kSwatchWidth, pictures::kSwatchHeight)},
                      {"class", "swatch"},
                      {"aria-hidden", "true"}});
    write_swatch(page, picture.legend[i]);
    page.close().leaf("span", picture.legend[i].name).close().close();
  }
  page.close();
}

void write_panel(Markup& page, const Panel& panel) {
  const std::string title = panel.name.id + "-title", description = panel.name.id + "-desc";
  const pictures::ZoomAxis axis = panel.zoom.value_or(pictures::ZoomAxis{});
  page.open(
      "svg",
      {{"viewBox",
        fmt::format("0 0 {} {}", pictures::decimal(panel.width), pictures::decimal(panel.height))},
       {"role", "img"},
       {panel.zoom ? "data-zoom" : "", fmt::format("{} {} {:.9g}", pictures::decimal(axis.left),
                                                   pictures::decimal(axis.right), axis.end)},
       {"aria-labelledby", title + " " + description}});
  page.leaf("title", {{"id", title}}, panel.name.title);
  page.leaf("desc", {{"id", description}}, panel.name.description);
  page.trusted(panel.shapes).close();
}

}  // namespace

void write_small_figure(Markup& page, Picture picture) {
  page.open("figure", {{"class", "chart small"}}).leaf("figcaption", picture.heading);
  for (Panel& panel : picture.panels) panel.name.id = "small-" + panel.name.id;
  write_legend(page, picture);
  for (const Panel& panel : picture.panels) write_panel(page, panel);
  write_list(page, picture.caption.notes, "notes");
  page.close();
}

void write_figure(Markup& page, const Picture& picture, const Table& data) {
  page.open("figure", {{"id", picture.id}, {"class", "chart"}});
  page.leaf("h3", picture.heading);
  // The heading already says "Scaling" of "Scaling: simple_cnn on mnist, ...".
  const std::string& title = picture.caption.title;
  page.leaf("p", {{"class", "about"}}, title.substr(std::min(title.find(": ") + 2, title.size())));
  write_legend(page, picture);
  page.open("div", {{"class", "panels"}});
  for (const Panel& panel : picture.panels) write_panel(page, panel);
  page.close().open("figcaption").leaf("p", picture.caption.subtitle);
  write_list(page, picture.caption.notes, {});
  page.close();
  write_folded_table(page, "Data as a table", data);
  page.close().trusted("\n");
}

namespace {

Table data_of(const ScalingChart& chart) {
  Table table{"Throughput and efficiency: median, least and most of the repetitions",
              columns_of({"strategy"}, {"devices", "samples/s", "least", "most", "efficiency, %",
                                        "repetitions"})};
  for (const ScalingPoint& point : chart.points) {
    const Spread& rate = point.samples_per_s;
    const std::string devices = std::to_string(point.devices) + (point.oversubscribed ? "*" : "");
    const auto efficiency =
        point.efficiency ? std::optional(point.efficiency->median) : std::nullopt;
    table.rows.push_back({chart.series[point.series].name, Cell(point.devices, devices),
                          number_cell(rate.median), number_cell(rate.min), number_cell(rate.max),
                          fixed_cell(efficiency, 0.01, 1), count_cell(rate.count)});
  }
  return table;
}

Table data_of(const StackedChart& chart) {
  const pictures::Unit unit = pictures::stacked_unit(chart);
  Table table{fmt::format("{}, in {}", chart.heading, unit.name), columns_of({"bar"}, chart.parts)};
  table.columns.push_back({chart.whole});
  for (const StackedBar& bar : chart.bars) {
    std::vector<Cell> row = {pictures::bar_name(bar)};
    for (const double part : bar.parts) row.push_back(fixed_cell(part, unit.size, 2));
    row.push_back(fixed_cell(bar.whole, unit.size, 2));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table data_of(const StepsChart& chart) {
  const pictures::Unit unit = pictures::time_unit(chart.shown_s);
  Table table{"Step times, in " + unit.name,
              columns_of({"run"}, {"steps", "least", "p5", "quartile 1", "median", "quartile 3",
                                   "p95", "p99", "most"})};
  for (const StepGroup& group : chart.groups) {
    const StepStatistics& t = group.time_s;
    std::vector<Cell> row = {group.name, count_cell(group.count)};
    for (const double value :
         {t.min, t.p5, group.q1_s, t.median, group.q3_s, t.p95, t.p99, t.max}) {
      row.push_back(fixed_cell(value, unit.size, 2));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table data_of(const BucketsChart& chart) {
  Table table{"Gradient buckets, in ms since the step's begin",
              columns_of({"run", "bucket"}, {"bytes", "ready", "start", "all arrived", "end"})};
  for (const BucketGroup& group : chart.groups) {
    for (const BucketBar& bar : group.bars) {
      table.rows.push_back({group.name, bar.label, fixed_cell(static_cast<double>(bar.bytes), 1, 0),
                            fixed_cell(bar.ready_s, 1e-3, 3), fixed_cell(bar.start_s, 1e-3, 3),
                            fixed_cell(bar.arrived_s, 1e-3, 3), fixed_cell(bar.end_s, 1e-3, 3)});
    }
  }
  return table;
}

Table data_of(const AccuracyChart& chart) {
  Table table{"Accuracy and loss after each epoch: medians over the repetitions",
              columns_of({"setting"}, {"epochs", "training, s", "least", "most", "test accuracy, %",
                                       "train loss", "repetitions"})};
  for (const AccuracyPoint& point : chart.points) {
    const Spread& time = point.trained;
    const auto loss = point.train_loss ? std::optional(point.train_loss->median) : std::nullopt;
    table.rows.push_back({chart.series[point.series].name, count_cell(point.epochs),
                          number_cell(time.median), number_cell(time.min), number_cell(time.max),
                          fixed_cell(point.test_accuracy.median, 0.01, 2), fixed_cell(loss, 1, 4),
                          count_cell(time.count)});
  }
  return table;
}

// `heading`: of a chart with nothing to draw.
template <typename Data>
void write_chart(Markup& page, const char* heading, const Data& chart,
                 Picture (*make)(const Data&, const Medium&)) {
  if (chart.empty_reason.empty()) {
    return write_figure(page, make(chart, Medium::page), data_of(chart));
  }
  page.open("figure", {{"class", "chart"}}).leaf("h3", heading);
  page.leaf("p", {{"class", "about"}}, "Nothing to draw: " + chart.empty_reason);
  page.close().trusted("\n");
}

}  // namespace

void write_pictures(Markup& page, const HtmlInput& input) {
  using namespace pictures;
  write_chart(page, "Scaling", scaling_chart(input.reports), scaling_picture);
  write_chart(page, "Where a step goes", breakdown_chart(input.reports), stacked_picture);
  write_chart(page, "Memory of a device", memory_chart(input.reports), stacked_picture);
  write_chart(page, "Step times", steps_chart(input.reports), steps_picture);
  write_chart(page, "Gradient buckets", buckets_chart(input.reports), buckets_picture);
  write_chart(page, "Accuracy", accuracy_chart(input.reports), accuracy_picture);
  write_chart(page, "How busy the devices are", busy_chart(input.reports), stacked_picture);
  const StackedChart staleness = staleness_chart(input.reports);
  if (!staleness.empty_reason.empty()) return;
  write_figure(page, stacked_picture(staleness, Medium::page), data_of(staleness));
}

}  // namespace ddpbench::report::html
