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

using pictures::fixed;
using pictures::Medium;
using pictures::number;
using pictures::Panel;
using pictures::Picture;
using pictures::Unit;

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
  if (!picture.caption.notes.empty()) {
    page.open("ul");
    for (const std::string& note : picture.caption.notes) page.leaf("li", note);
    page.close();
  }
  page.close();
  write_folded_table(page, "Data as a table", data);
  page.close().trusted("\n");
}

namespace {

// Writes the heading of a chart with nothing to draw, and the reason.
void write_no_figure(Markup& page, const std::string& heading, const std::string& why) {
  page.open("figure", {{"class", "chart"}}).leaf("h3", heading);
  page.leaf("p", {{"class", "about"}}, "Nothing to draw: " + why).close().trusted("\n");
}

Table scaling_table(const ScalingChart& chart) {
  Table table{"Throughput and efficiency: median, least and most of the repetitions",
              {{"strategy", true},
               {"devices"},
               {"samples/s"},
               {"least"},
               {"most"},
               {"efficiency, %"},
               {"repetitions"}},
              {},
              {}};
  for (const ScalingPoint& point : chart.points) {
    const Spread& rate = point.samples_per_s;
    std::string devices = std::to_string(point.devices) + (point.oversubscribed ? "*" : "");
    std::vector<Cell> row = {cell(chart.series[point.series].name),
                             cell(point.devices, std::move(devices))};
    for (const double value : {rate.median, rate.min, rate.max}) {
      row.push_back(cell(value, number(value)));
    }
    row.push_back(point.efficiency
                      ? cell(point.efficiency->median, fixed(100 * point.efficiency->median, 1))
                      : missing_cell());
    row.push_back(cell(rate.count, std::to_string(rate.count)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table stacked_table(const StackedChart& chart, const Picture& picture, const Unit& unit) {
  Table table{picture.heading + ", in " + unit.name, {{"bar", true}}, {}, {}};
  for (const std::string& part : chart.parts) table.columns.push_back({part});
  table.columns.push_back({chart.whole});
  for (const StackedBar& bar : chart.bars) {
    std::vector<Cell> row = {cell(pictures::bar_name(bar))};
    for (const double part : bar.parts) row.push_back(cell(part, fixed(part / unit.size, 2)));
    row.push_back(cell(bar.whole, fixed(bar.whole / unit.size, 2)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table steps_table(const StepsChart& chart) {
  const Unit unit = pictures::time_unit(chart.shown_s);
  Table table{"Step times, in " + unit.name,
              {{"run", true},
               {"steps"},
               {"least"},
               {"p5"},
               {"quartile 1"},
               {"median"},
               {"quartile 3"},
               {"p95"},
               {"p99"},
               {"most"}},
              {},
              {}};
  for (const StepGroup& group : chart.groups) {
    const StepStatistics& t = group.time_s;
    std::vector<Cell> row = {cell(group.name),
                             cell(static_cast<double>(group.count), std::to_string(group.count))};
    for (const double value :
         {t.min, t.p5, group.q1_s, t.median, group.q3_s, t.p95, t.p99, t.max}) {
      row.push_back(cell(value, fixed(value / unit.size, 2)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table buckets_table(const BucketsChart& chart) {
  Table table{
      "Gradient buckets, in ms since the step's begin",
      {{"run", true}, {"bucket", true}, {"bytes"}, {"ready"}, {"start"}, {"all arrived"}, {"end"}},
      {},
      {}};
  for (const BucketGroup& group : chart.groups) {
    for (const BucketBar& bar : group.bars) {
      const auto bytes = static_cast<double>(bar.bytes);
      std::vector<Cell> row = {cell(group.name), cell(bar.label), cell(bytes, fixed(bytes, 0))};
      for (const double value : {bar.ready_s, bar.start_s, bar.arrived_s, bar.end_s}) {
        row.push_back(cell(value, fixed(1e3 * value, 3)));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table accuracy_table(const AccuracyChart& chart) {
  Table table{"Accuracy and loss after each epoch: medians over the repetitions",
              {{"setting", true},
               {"epochs"},
               {"training, s"},
               {"least"},
               {"most"},
               {"test accuracy, %"},
               {"train loss"},
               {"repetitions"}},
              {},
              {}};
  for (const AccuracyPoint& point : chart.points) {
    const Spread& time = point.trained;
    std::vector<Cell> row = {cell(chart.series[point.series].name),
                             cell(point.epochs, std::to_string(point.epochs))};
    for (const double value : {time.median, time.min, time.max}) {
      row.push_back(cell(value, number(value)));
    }
    const double accuracy = point.test_accuracy.median;
    row.push_back(cell(accuracy, fixed(100 * accuracy, 2)));
    row.push_back(point.train_loss
                      ? cell(point.train_loss->median, fixed(point.train_loss->median, 4))
                      : missing_cell());
    row.push_back(cell(time.count, std::to_string(time.count)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void write_scaling(Markup& page, const ScalingChart& chart) {
  if (!chart.empty_reason.empty()) return write_no_figure(page, "Scaling", chart.empty_reason);
  write_figure(page, pictures::scaling_picture(chart, Medium::page), scaling_table(chart));
}

// `make`: breakdown_picture, memory_picture or busy_picture.
void write_stacked(Markup& page, const StackedChart& chart, const std::string& heading,
                   Picture (*make)(const StackedChart&, const Medium&), Unit (*unit)(double)) {
  if (!chart.empty_reason.empty()) return write_no_figure(page, heading, chart.empty_reason);
  const Picture picture = make(chart, Medium::page);
  write_figure(page, picture, stacked_table(chart, picture, unit(pictures::longest_bar(chart))));
}

void write_steps(Markup& page, const StepsChart& chart) {
  if (!chart.empty_reason.empty()) return write_no_figure(page, "Step times", chart.empty_reason);
  write_figure(page, pictures::steps_picture(chart, Medium::page), steps_table(chart));
}

void write_buckets(Markup& page, const BucketsChart& chart) {
  if (!chart.empty_reason.empty()) {
    return write_no_figure(page, "Gradient buckets", chart.empty_reason);
  }
  write_figure(page, pictures::buckets_picture(chart, Medium::page), buckets_table(chart));
}

void write_accuracy(Markup& page, const AccuracyChart& chart) {
  if (!chart.empty_reason.empty()) return write_no_figure(page, "Accuracy", chart.empty_reason);
  write_figure(page, pictures::accuracy_picture(chart, Medium::page), accuracy_table(chart));
}

}  // namespace

void write_pictures(Markup& page, const HtmlInput& input, const ScalingChart& scaling) {
  open_section(page, "pictures", "Pictures");
  write_scaling(page, scaling);
  write_stacked(page, breakdown_chart(input.reports), "Where a step goes",
                pictures::breakdown_picture, pictures::time_unit);
  write_stacked(page, memory_chart(input.reports), "Memory of a device", pictures::memory_picture,
                pictures::memory_unit);
  write_steps(page, steps_chart(input.reports));
  write_buckets(page, buckets_chart(input.reports));
  write_accuracy(page, accuracy_chart(input.reports));
  write_stacked(page, busy_chart(input.reports), "How busy the devices are", pictures::busy_picture,
                pictures::share_unit);
  page.close();
}

}  // namespace ddpbench::report::html
