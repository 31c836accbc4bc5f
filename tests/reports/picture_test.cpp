// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures as files of their own: what they show, that a strict XML reader accepts them, and that
// no text of a report becomes markup. tests/html checks the same shapes in a browser.
#include "reports/pictures/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "reports/pictures/svg.h"
#include "tests/reports/run_charts.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report::pictures {
namespace {

using test::sample_report;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

Picture picture_of(const Report& report, std::string_view kind, Medium medium = Medium::file) {
  const auto& found = *std::ranges::find(picture_kinds(), kind, &PictureKind::name);
  return found.draw({&report, 1}, CourseAxis::seconds).picture(medium);
}

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

std::string shapes_of(const Picture& picture) {
  std::string text;
  for (const Panel& panel : picture.panels) text += panel.shapes;
  return text;
}

std::vector<std::string> legend_of(const Picture& picture) {
  std::vector<std::string> names;
  for (const LegendEntry& entry : picture.legend) names.push_back(entry.name);
  return names;
}

// The error of Python's parser for a document; empty when it is well-formed.
std::string xml_error(const std::string& text) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "picture-XXXXXX").string();
  std::string name = path;
  const int file = mkstemp(name.data());
  if (file < 0) return "no temporary file";
  close(file);
  std::ofstream(name, std::ios::binary) << text;
  const std::string said = name + ".said";
  const std::string command =
      "python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' " + name +
      " 2> " + said;
  const int code = std::system(command.c_str());  // NOLINT: a fixed command and our own path
  std::ifstream words(said);
  const std::string error(std::istreambuf_iterator<char>(words), {});
  std::filesystem::remove(name);
  std::filesystem::remove(said);
  return code == 0 ? "" : "not well-formed: " + error;
}

class PictureFiles : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Kinds, PictureFiles, ::testing::ValuesIn(test::kRunChartKinds),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(PictureFiles, AreWellFormedAndHoldTitleSubtitleAndNotes) {
  const Picture picture = picture_of(sample_report(), GetParam());
  const std::string file = picture_file(picture);
  EXPECT_EQ(xml_error(file), "");
  EXPECT_THAT(file, AllOf(HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""), HasSubstr("viewBox="),
                          HasSubstr("simple_cnn on mnist"), HasSubstr("weak scaling"),
                          HasSubstr("Imaginary 9000")));
  ASSERT_FALSE(picture.caption.notes.empty());
  for (const std::string& note : picture.caption.notes) {
    EXPECT_THAT(file, HasSubstr(escaped(wrapped(note, 700, 8).front().substr(0, 40)))) << note;
  }
  for (const LegendEntry& entry : picture.legend) EXPECT_THAT(file, HasSubstr(">" + entry.name));
}

TEST_P(PictureFiles, NeedNothingAround) {
  const std::string file = picture_file(picture_of(sample_report(), GetParam()));
  EXPECT_EQ(occurrences(file, "://"), 1U) << "the name of SVG's namespace";
  EXPECT_THAT(file, AllOf(Not(HasSubstr("var(")), Not(HasSubstr("light-dark")),
                          Not(HasSubstr("<script")), Not(HasSubstr("href"))));
  EXPECT_THAT(file, AllOf(HasSubstr("font-family:"), HasSubstr(".paper { fill: #fff; }"),
                          HasSubstr("<pattern id=\"hatch-p3\"")));
}

TEST_P(PictureFiles, TakeNothingInAReportForMarkup) {
  const std::string file = picture_file(picture_of(test::hostile_report(), GetParam()));
  EXPECT_EQ(xml_error(file), "");
  EXPECT_THAT(file, HasSubstr("EVIL"));
  EXPECT_THAT(file, Not(HasSubstr("<script")));
  EXPECT_THAT(file, HasSubstr("&lt;script&gt;EVIL()"));
}

TEST_P(PictureFiles, AreDrawnOfASingleRunAndOfManyDevices) {
  Report report = sample_report();
  report::Run run = report.runs[2];
  run.step.samples_s = {0.5};
  report.runs = {run};
  EXPECT_EQ(xml_error(picture_file(picture_of(report, GetParam()))), "");
  for (const int devices : {8, 64, 4096}) {
    report.runs.push_back(run);
    report.runs.back().world_size = devices;
    report.runs.back().step.samples_s = {0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 9};
    report.runs.back().scaling.reset();
  }
  EXPECT_EQ(xml_error(picture_file(picture_of(report, GetParam()))), "");
}

TEST_P(PictureFiles, AreTheSameForTheSameReport) {
  EXPECT_EQ(picture_file(picture_of(sample_report(), GetParam())),
            picture_file(picture_of(sample_report(), GetParam())));
}

TEST_P(PictureFiles, ShowWhatAPageShows) {
  const Picture file = picture_of(sample_report(), GetParam(), Medium::file);
  const Picture page = picture_of(sample_report(), GetParam(), Medium::page);
  EXPECT_EQ(legend_of(file), legend_of(page));
  EXPECT_EQ(file.caption.notes, page.caption.notes);
  for (const char* shape : {"<title>", "class=\"marker", "class=\"part\"", "class=\"whole\""}) {
    EXPECT_EQ(occurrences(shapes_of(file), shape), occurrences(shapes_of(page), shape)) << shape;
  }
}

// The value of an attribute of the document's <svg>.
std::string attribute(const std::string& file, const std::string& name) {
  const std::size_t svg = file.find("<svg");
  const std::size_t begin = file.find(" " + name + "=\"", svg) + name.size() + 3;
  return file.substr(begin, file.find('"', begin) - begin);
}

TEST_P(PictureFiles, HaveExactlyTheSizeThatIsAskedFor) {
  const auto make = [](const Medium& medium) {
    return picture_of(sample_report(), GetParam(), medium);
  };
  for (const PictureSize& size : {PictureSize{912, 900}, PictureSize{500, 1400}}) {
    const std::string file = picture_file(make, size);
    EXPECT_EQ(xml_error(file), "");
    EXPECT_EQ(attribute(file, "width"), std::to_string(size.width));
    EXPECT_EQ(attribute(file, "height"), std::to_string(size.height));
    // The lowest word is near the lower edge: the picture fills its height.
    double lowest = 0;
    for (auto at = file.find("class=\"note\""); at != std::string::npos;
         at = file.find("class=\"note\"", at + 1)) {
      const std::size_t y = file.rfind(" y=\"", at) + 4;
      lowest = std::max(lowest, std::strtod(file.c_str() + y, nullptr));
    }
    EXPECT_GT(lowest, size.height - 40);
    EXPECT_LT(lowest, size.height);
  }
  try {
    picture_file(make, {912, 200});
    ADD_FAILURE() << "it was drawn";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("912x200 is too low: at this width the picture needs"));
  }
}

TEST(ScalingPicture, PutsItsPanelsBelowEachOtherWhereItIsNarrow) {
  const auto chart = scaling_chart(std::vector<Report>{sample_report()});
  std::vector<double> widths;
  const auto make = [&](const Medium& medium) {
    widths.push_back(medium.plot_width);
    return scaling_picture(chart, medium);
  };
  EXPECT_GT(picture_file(make, {400, 1200}).size(), 0U);
  EXPECT_GT(picture_file(make, {1000, 700}).size(), 0U);
  EXPECT_EQ(widths.front(), 360);
  EXPECT_EQ(widths.back(), 464);
}

TEST(SmallMultiples, ShareOneScale) {
  Report report = sample_report();
  report::Run slow = report.runs[2];
  slow.world_size = 4;
  for (double& sample : slow.step.samples_s) sample *= 10;
  for (DeviceRow& device : slow.devices) {
    for (BucketRow& row : device.buckets) row.end_s *= 10;
  }
  slow.step.time_s->median *= 10;
  report.runs = {report.runs[2], slow};
  const Picture steps = picture_of(report, "steps");
  EXPECT_EQ(occurrences(steps.panels[1].shapes, ">0 to 210\u00A0ms<"), 2U);
  const Picture buckets = picture_of(report, "buckets");
  ASSERT_THAT(buckets.panels, SizeIs(2));
  for (const Panel& panel : buckets.panels) EXPECT_THAT(panel.shapes, HasSubstr(">200<"));
}

TEST(SweepPicture, DrawsAStrategyInOneColour) {
  Report report = sample_report();
  report.runs = {report.runs[2], report.runs[2]};
  report.runs[1].precision = "bf16";
  const Picture picture = picture_of(report, "scaling");
  ASSERT_THAT(picture.legend, SizeIs(::testing::Ge(2)));
  EXPECT_EQ(picture.legend[0].classes, "s2");
  EXPECT_EQ(picture.legend[1].classes, "s2 v1");
  EXPECT_NE(picture.legend[0].marker, picture.legend[1].marker);
}

TEST(ScalingPicture, HasALineForEachStrategyAndItsValues) {
  const Picture picture = picture_of(sample_report(), "scaling");
  EXPECT_THAT(legend_of(picture), ElementsAre("single", "dp", "ddp", "ps", "ideal"));
  ASSERT_THAT(picture.panels, SizeIs(2));
  const std::string& rates = picture.panels[0].shapes;
  EXPECT_EQ(occurrences(rates, "class=\"series\""), 4U);
  EXPECT_EQ(occurrences(rates, "class=\"marker\""), 3U);
  EXPECT_EQ(occurrences(rates, "class=\"marker hollow\""), 1U) << "ps is oversubscribed";
  EXPECT_THAT(rates, AllOf(HasSubstr("dp on 2 devices\n5200\u00A0samples/s"),
                           HasSubstr("ps on 4 devices, oversubscribed\n6000\u00A0samples/s"),
                           HasSubstr("ideal: 3200\u00A0samples/s for each device")));
  EXPECT_THAT(picture.panels[1].shapes, HasSubstr("ddp on 2 devices\n95.3\u00A0%"));
  EXPECT_THAT(picture.panels[1].shapes, Not(HasSubstr("ps on 4"))) << "it has no efficiency";
}

TEST(ScalingPicture, HasErrorBarsOfRepetitions) {
  Report report = sample_report();
  report.runs = {report.runs[1], report.runs[1], report.runs[1]};
  report.runs[0].samples_per_s = Figure::of(5000);
  report.runs[2].samples_per_s = Figure::of(5500);
  const std::string shapes = shapes_of(picture_of(report, "scaling"));
  EXPECT_THAT(shapes, HasSubstr("3 repetitions: 5000 to 5500"));
  EXPECT_EQ(occurrences(shapes, "class=\"error\""), 2U) << "throughput and efficiency";
}

TEST(ScalingPicture, IsLogarithmicAboveEightDevicesAndSaysSo) {
  const auto places = [](int most) {
    Report report = sample_report();
    const report::Run run = report.runs[2];
    report.runs.clear();
    for (int devices = 1; devices <= most; devices *= 2) {
      report.runs.push_back(run);
      report.runs.back().world_size = devices;
      report.runs.back().samples_per_s = Figure::of(1000.0 * devices);
    }
    return picture_of(report, "scaling");
  };
  EXPECT_THAT(places(8).caption.notes, Not(::testing::Contains(HasSubstr("logarithmic"))));
  const Picture picture = places(16);
  EXPECT_THAT(picture.caption.notes, ::testing::Contains(HasSubstr("logarithmic")));
  // Powers of two are evenly spaced, and so are the ends of the line's segments.
  const std::string& shapes = picture.panels[0].shapes;
  const std::size_t series = shapes.find("class=\"series\"");
  const std::size_t line = shapes.rfind("d=\"M", series);
  std::vector<double> xs, ys;
  for (std::size_t at = line + 3; at < shapes.size() && (shapes[at] == 'M' || shapes[at] == 'L');) {
    char* end = nullptr;
    xs.push_back(std::strtod(shapes.c_str() + at + 1, &end));
    ys.push_back(std::strtod(end, &end));
    at = static_cast<std::size_t>(end - shapes.c_str());
  }
  ASSERT_THAT(xs, SizeIs(5));
  for (std::size_t i = 2; i < xs.size(); ++i) {
    EXPECT_NEAR(xs[i] - xs[i - 1], xs[1] - xs[0], 0.11);
    EXPECT_NEAR(ys[i] - ys[i - 1], ys[1] - ys[0], 0.11);
  }
}

TEST(BreakdownPicture, HasABarOfPartsForEachRun) {
  const Picture picture = picture_of(sample_report(), "breakdown");
  EXPECT_THAT(legend_of(picture),
              ElementsAre("input wait", "forward", "backward", "communication not hidden", "update",
                          "waiting for devices", "other"));
  const std::string shapes = shapes_of(picture);
  EXPECT_EQ(occurrences(shapes, "class=\"whole\""), 4U);
  EXPECT_THAT(shapes, AllOf(HasSubstr(">single on 1<"), HasSubstr(">ps on 4*<"),
                            HasSubstr(">20.0\u00A0ms<"), HasSubstr("dp on 2\nforward: ")));
}

TEST(MemoryPicture, HasABarForEachKindOfDevice) {
  const Picture picture = picture_of(sample_report(), "memory");
  EXPECT_THAT(legend_of(picture), ElementsAre("weights", "activations"));
  const std::string shapes = shapes_of(picture);
  EXPECT_THAT(shapes,
              AllOf(HasSubstr(">ps on 4*: others (most of 3)<"), HasSubstr(">ps on 4*: server<"),
                    HasSubstr(">40.0\u00A0MiB<"), HasSubstr(">2.00\u00A0MiB<")));
}

TEST(StepsPicture, HasABoxAndAStripForEachRun) {
  const Picture picture = picture_of(sample_report(), "steps");
  EXPECT_THAT(legend_of(picture), ElementsAre("single", "dp", "ddp", "ps"));
  ASSERT_THAT(picture.panels, SizeIs(2));
  EXPECT_EQ(occurrences(picture.panels[0].shapes, "class=\"quartiles\""), 4U);
  EXPECT_THAT(picture.panels[0].shapes, HasSubstr("ddp on 2\n3 steps\nmedian 20.0\u00A0ms"));
  EXPECT_EQ(occurrences(picture.panels[1].shapes, "class=\"band\""), 4U);
  EXPECT_THAT(picture.panels[1].shapes, HasSubstr(">0 to 21.0\u00A0ms<"));
}

// Pages, files and terminals share the rule for outliers of chart_data.h.
TEST(StepsPicture, NamesStepsBeyondItsAxes) {
  Report report = sample_report();
  report.runs = {report.runs[1], report.runs[2]};
  report.runs[0].step.samples_s.assign(100, 0.01);
  report.runs[0].step.samples_s[50] = 9;
  report.runs[1].step.samples_s.assign(100, 0.02);
  for (const Medium medium : {Medium::page, Medium::file}) {
    const Picture picture = picture_of(report, "steps", medium);
    EXPECT_THAT(picture.caption.notes, ::testing::Contains(HasSubstr("arrow")));
    EXPECT_THAT(picture.panels[0].shapes, HasSubstr(">20<")) << "ms, the axis's end";
    EXPECT_EQ(occurrences(picture.panels[0].shapes, "l7 5l-7 5"), 1U) << "arrow";
    EXPECT_THAT(picture.panels[1].shapes, HasSubstr(">0 to 60.0\u00A0ms, slowest 9000\u00A0ms<"));
    EXPECT_EQ(occurrences(picture.panels[1].shapes, "l3 -5l3 5"), 1U) << "arrow of the strip";
  }
}

TEST(BucketsPicture, HasALineForEachBucketAndTheStep) {
  const Picture picture = picture_of(sample_report(), "buckets");
  EXPECT_THAT(legend_of(picture), ElementsAre("backward", "queueing", "waiting for other ranks",
                                              "transfer", "median step"));
  ASSERT_THAT(picture.panels, SizeIs(1));
  const std::string& shapes = picture.panels[0].shapes;
  EXPECT_EQ(occurrences(shapes, "class=\"part\""), 3U);
  EXPECT_EQ(occurrences(shapes, "class=\"step\""), 1U);
  EXPECT_THAT(shapes, AllOf(HasSubstr(">rank 1 bucket 0<"), HasSubstr("ready 10.0\u00A0ms"),
                            HasSubstr("transfer 0.800\u00A0ms")));
}

TEST(AccuracyPicture, HasALineForEachSettingAndTheTarget) {
  Report report = sample_report();
  report.runs = {report.runs[0], report.runs[2], report.runs[2]};
  report.runs[2].world_size = 4;
  for (report::Run& run : report.runs) {
    run.epochs.push_back({1, 10, 60032, 6003.2, 0.1, 0.97, Figure::of(0.99)});
    run.until_accuracy = AccuracyTarget{0.985, Figure::of(20)};
  }
  const Picture picture = picture_of(report, "accuracy");
  EXPECT_THAT(legend_of(picture),
              ElementsAre("single on 1", "ddp on 2", "ddp on 4", "until 98.5 %"));
  EXPECT_EQ(picture.legend[2].classes, "s2 v1") << "a strategy in one colour";
  ASSERT_THAT(picture.panels, SizeIs(2));
  const std::string& accuracy = picture.panels[0].shapes;
  EXPECT_EQ(occurrences(accuracy, "class=\"series\""), 3U);
  EXPECT_EQ(occurrences(accuracy, "class=\"marker\""), 6U);
  EXPECT_EQ(occurrences(accuracy, "class=\"ideal\""), 1U);
  EXPECT_THAT(accuracy, AllOf(HasSubstr("ddp on 4\n2 epochs, 20.0\u00A0s\n99.0\u00A0%"),
                              HasSubstr(">98.0<"), HasSubstr(">100.0<"), HasSubstr(">20<")));
  EXPECT_THAT(picture.panels[1].shapes, HasSubstr("ddp on 4\n2 epochs, 20.0\u00A0s\n0.100<"));
  EXPECT_EQ(occurrences(picture.panels[1].shapes, "class=\"ideal\""), 0U);
}

TEST(AccuracyPicture, HasErrorBarsOfRepetitions) {
  Report report = sample_report();
  report.runs = {report.runs[2], report.runs[2]};
  report.runs[1].epochs[0].time_s = 12;
  const Picture picture = picture_of(report, "accuracy");
  EXPECT_EQ(occurrences(shapes_of(picture), "class=\"error\""), 2U) << "in both panels";
  EXPECT_THAT(picture.panels[0].shapes,
              HasSubstr("2 repetitions: 10.0\u00A0s to 12.0\u00A0s, 98.1\u00A0% to 98.1\u00A0%"));
}

TEST(AccuracyPicture, DrawsTheLossThroughItsReadings) {
  Report report = sample_report();
  report.runs = {report.runs[2]};
  const Picture plain = picture_of(report, "accuracy");
  report.runs[0].progress = {
      {0, 100, 2.5, 0, 3, 0.5}, {0, 200, 5, 0, 1, 0.5}, {0, 400, 10, 0, 0.25, 0.5}};
  const Picture picture = picture_of(report, "accuracy");
  EXPECT_EQ(picture.panels[0].shapes, plain.panels[0].shapes);
  const std::string& loss = picture.panels[1].shapes;
  const std::size_t path = loss.find("class=\"series\"");
  ASSERT_NE(path, std::string::npos);
  EXPECT_EQ(occurrences(loss, "class=\"series\""), 1U);
  EXPECT_EQ(occurrences(loss, "class=\"marker\""), 1U) << "the epoch's mean";
  const std::string element = loss.substr(loss.rfind('<', path), loss.find('>', path));
  EXPECT_EQ(occurrences(element.substr(0, element.find("/>")), "L"), 2U) << element;
}

TEST(BusyPicture, HasABarForEachDeviceOnAnAxisToTheWholeStep) {
  Report report = sample_report();
  report.runs = {report.runs[1]};
  for (DeviceRow& device : report.runs[0].devices) {
    device.step_time_median_s = Figure::of(0.02);
    device.phases = {{"forward_s", Figure::of(0.002)}, {"backward_s", Figure::of(0.003)}};
  }
  const Picture picture = picture_of(report, "busy");
  EXPECT_THAT(legend_of(picture), ElementsAre("forward", "backward", "update"));
  const std::string shapes = shapes_of(picture);
  EXPECT_EQ(occurrences(shapes, "class=\"part\""), 4U) << "none of them updates";
  EXPECT_THAT(shapes, AllOf(HasSubstr(">dp on 2: rank 1<"), HasSubstr(">25.0\u00A0%<"),
                            HasSubstr(">100<"), HasSubstr("backward: 15.0\u00A0%")));
  EXPECT_EQ(xml_error(picture_file(picture)), "");
}

TEST(AxisOver, HasRoundTicksFromItsBeginning) {
  EXPECT_THAT(axis_over(0.95, 1, {"%", 0.01}, 5).labels,
              ElementsAre("95", "96", "97", "98", "99", "100"));
  EXPECT_THAT(axis_over(0.98, 1, {"%", 0.01}, 5).labels,
              ElementsAre("98.0", "98.5", "99.0", "99.5", "100.0"));
  EXPECT_EQ(axis_over(0.8, 1, {"%", 0.01}, 5).position(0.9), 0.5);
}

TEST(PictureStyle, LinesDifferInColourOrShape) {
  std::set<std::pair<std::string, std::string>> looks;
  for (std::size_t style = 0; style < 24; ++style) {
    looks.emplace(style_class(style), marker_path(style, {0, 0}));
  }
  EXPECT_THAT(looks, SizeIs(24));
}

TEST(PictureStyle, LinesOfAStrategyDifferInDashOrMarker) {
  std::set<std::pair<std::string, std::string>> looks;
  for (std::size_t variant = 0; variant < 31; ++variant) {
    const ChartSeries series{"ddp", 2, variant};
    looks.emplace(line_class(series), marker_path(line_marker(series), {0, 0}));
    EXPECT_THAT(line_class(series), ::testing::StartsWith("s2"));
  }
  EXPECT_THAT(looks, SizeIs(31));
}

TEST(PictureText, IsWrappedAtItsWidth) {
  EXPECT_THAT(wrapped("", 100, 3), IsEmpty());
  EXPECT_THAT(wrapped("one\ntwo", 1000, 3), ElementsAre("one two"));
  std::string text;
  for (int i = 0; i < 100; ++i) text += "word" + std::to_string(i) + " ";
  const std::vector<std::string> lines = wrapped(text, 200, 100);
  std::vector<double> widths;
  std::string joined;
  for (const std::string& line : lines) {
    widths.push_back(text_width(line));
    joined += line + " ";
  }
  EXPECT_THAT(widths, Each(Le(200)));
  EXPECT_EQ(joined, text) << "no word is lost";
}

TEST(PictureText, BeyondTheLastLineIsCutWithAnEllipsis) {
  const std::string text(5000, 'x');
  EXPECT_THAT(wrapped(text, 200, 3), ElementsAre(AllOf(HasSubstr("\u2026"), SizeIs(Le(40)))));
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "word ";
  const std::vector<std::string> lines = wrapped(words, 200, 3);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[2], HasSubstr("\u2026"));
  EXPECT_LE(text_width(lines[2]), 200);
}

TEST(PictureText, FitsWithoutCuttingACharacter) {
  const std::string fitted_name = fitted("ddp, \u00B5-batch \u00E9\u00E8\u00EA on 4096*", 90);
  EXPECT_LE(text_width(fitted_name), 90);
  EXPECT_EQ(escaped(fitted_name), fitted_name) << "valid UTF-8";
  EXPECT_THAT(fitted_name, AllOf(::testing::StartsWith("d"), ::testing::EndsWith("4096*")));
}

TEST(LogAxis, HoldsItsValuesBetweenRoundTicks) {
  EXPECT_THAT(log_axis(3, 90, {"", 1}, 7).labels, ElementsAre("2", "5", "10", "20", "50", "100"));
  EXPECT_THAT(log_axis(1, 1, {"", 1}, 7).labels, ElementsAre("1", "2"));
  for (const auto& [least, most] : {std::pair(0.3, 7e6), std::pair(1e-9, 9e17), std::pair(5.0, 5.0),
                                    std::pair(999.0, 1001.0)}) {
    const Axis axis = log_axis(least, most, {"", 1}, 7);
    EXPECT_LE(axis.begin, least);
    EXPECT_GE(axis.end, most);
    EXPECT_GE(axis.ticks.size(), 2U);
    EXPECT_LE(axis.ticks.size(), 7U);
    EXPECT_EQ(axis.position(axis.begin), 0);
    EXPECT_EQ(axis.position(axis.end), 1);
    EXPECT_EQ(axis.position(0), 0);
    EXPECT_EQ(axis.ticks.back(), axis.end);
  }
}

}  // namespace
}  // namespace ddpbench::report::pictures
