// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "reports/gate/gate.h"
#include "reports/metrics/scaling.h"
#include "reports/pictures/markup.h"
#include "reports/pictures/svg.h"
#include "reports/why/why.h"
#include "tests/html/sample_pages.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using pictures::Markup;
using test::all_inputs;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(MarkupTest, EscapesTextAndValues) {
  Markup page;
  page.leaf("a", {{"title", "1 < \"2\" & '3'"}}, "<b>&");
  EXPECT_EQ(page.take(), "<a title=\"1 &lt; &quot;2&quot; &amp; &#39;3&#39;\">&lt;b&gt;&amp;</a>");
}

TEST(MarkupTest, ReplacesWhatXmlDoesNotAllow) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(pictures::escaped(std::string("a\0b", 3)), "a" + replaced + "b");
  EXPECT_EQ(pictures::escaped("\x1b\x7f"), replaced + replaced);
  EXPECT_EQ(pictures::escaped("line\n\tnext"), "line\n\tnext");
  EXPECT_EQ(pictures::escaped("\xff"), replaced);
  EXPECT_EQ(pictures::escaped("\xc0\xaf"), replaced + replaced) << "a slash in two bytes";
  EXPECT_EQ(pictures::escaped("\xed\xa0\x80"), replaced) << "half of a UTF-16 pair";
  EXPECT_EQ(pictures::escaped("\xef\xbf\xbf"), replaced) << "no character";
  EXPECT_EQ(pictures::escaped("\xe2\x80\xaex"), replaced + "x") << "turns the direction around";
  EXPECT_EQ(pictures::escaped("\xe2\x82"), replaced + replaced) << "cut off";
  EXPECT_EQ(pictures::escaped("\u00e9\u20ac\U0001F600"), "\u00e9\u20ac\U0001F600");
}

TEST(MarkupTest, EveryElementIsClosed) {
  Markup page;
  page.open("p");
  EXPECT_THROW(page.take(), InternalError);
  page.close();
  EXPECT_EQ(page.take(), "<p></p>");
  EXPECT_THROW(page.close(), InternalError);
}

TEST(NumbersTest, ThreeDigitsAndGaps) {
  EXPECT_EQ(pictures::number(0), "0");
  EXPECT_EQ(pictures::number(0.02134), "0.0213");
  EXPECT_EQ(pictures::number(46.56), "46.6");
  EXPECT_EQ(pictures::number(1103.4), "1103");
  EXPECT_EQ(pictures::number(1234567), "1\u202F234\u202F567");
  EXPECT_EQ(pictures::number(-12345), "-12\u202F345");
  EXPECT_EQ(pictures::number(1e300), "1e+300");
}

TEST(NumbersTest, AxesHaveRoundTicksAndHoldTheLargestValue) {
  const pictures::Axis axis = pictures::axis_to(0.0476, {"ms", 1e-3}, 5);
  EXPECT_THAT(axis.labels, ElementsAre("0", "10", "20", "30", "40", "50"));
  EXPECT_DOUBLE_EQ(axis.end, 0.05);
  EXPECT_THAT(pictures::axis_to(1, {"%", 0.01}, 5).labels,
              ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(pictures::axis_to(0.4, {"", 1}, 4).labels,
              ElementsAre("0", "0.1", "0.2", "0.3", "0.4"));
}

TEST(NumbersTest, AxesOfOddValuesStillEnd) {
  for (const double value : {0.0, -1.0, 1e-300, 1e300, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    const pictures::Axis axis = pictures::axis_to(value, {"", 1}, 5);
    EXPECT_GT(axis.end, 0) << value;
    EXPECT_LE(axis.ticks.size(), 7U) << value;
  }
}

TEST(HtmlPageTest, ForbidsTheNetworkAndNamesItsOwnStyleAndScriptOnly) {
  const std::string page = html_page(test::rich_input());
  EXPECT_THAT(page, HasSubstr("http-equiv=\"Content-Security-Policy\""));
  EXPECT_THAT(page, HasSubstr("default-src &#39;none&#39;"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_EQ(occurrences(page, "<script"), 1U);
  EXPECT_EQ(occurrences(page, "<style"), 1U);
}

TEST(HtmlPageTest, SaysWhatTheReportSays) {
  const std::string page = html_page(test::rich_input());
  for (const char* text :
       {"<h1>simple_cnn on mnist</h1>", "killed by SIGKILL", "no CUDA device is here",
        "Imaginary 9000", "conv2.weight", "What would help", "avx512f", "OMP_NUM_THREADS",
        "&quot;strategies&quot;: [", "svg-throughput", "svg-efficiency", "svg-breakdown",
        "svg-memory", "svg-distribution", "svg-course", "svg-buckets-0", "svg-accuracy",
        "svg-loss"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(HtmlPageTest, SaysInWordsWhatPicturesShow) {
  const std::string page = html_page(test::rich_input());
  for (const char* words :
       {"<li>ddp on 2 devices; 6184\u00A0samples/s; 2 repetitions: ", "; forward ",
        "<li>ddp on 2; 600 steps; median ", "rank 1 bucket 0; 1.00\u00A0MiB; ready "}) {
    EXPECT_THAT(page, HasSubstr(words));
  }
}

TEST(HtmlPageTest, TheSameReportGivesTheSamePage) {
  EXPECT_EQ(html_page(test::rich_input()), html_page(test::rich_input()));
}

TEST(HtmlPageTest, NothingInAReportIsMarkup) {
  const std::string page = html_page(test::hostile_input());
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;window.broken=1&lt;/script&gt;"));
  EXPECT_EQ(occurrences(page, "<script"), 1U);
  EXPECT_EQ(occurrences(page, "</script"), 1U);
  EXPECT_EQ(occurrences(page, "<img"), 0U);
  EXPECT_EQ(occurrences(page, "<!--"), 0U);
  const auto forbidden = [](char c) { return c >= 0 && c < ' ' && c != '\n' && c != '\t'; };
  EXPECT_EQ(std::ranges::count_if(page, forbidden), 0);
}

TEST(HtmlPageTest, TellsCellsAndRepetitionsOfASweepApart) {
  HtmlInput input{{"sweep.json"}, {test::sample_report()}};
  Report& report = input.reports[0];
  const report::Run run = report.runs[1];
  report.runs.clear();
  for (const int batch : {32, 64}) {
    for (int repetition = 0; repetition < 3; ++repetition) {
      report.runs.push_back(run);
      report.runs.back().repetition = repetition;
      report.runs.back().per_device_batch_size = batch;
    }
  }
  const std::string page = html_page(input);
  for (const char* batch : {"32", "64"}) {
    for (const char* repetition : {"1", "2", "3"}) {
      EXPECT_THAT(page, HasSubstr(std::string("dp on 2 devices (batch ") + batch +
                                  " a device), repetition " + repetition));
    }
    EXPECT_THAT(page, HasSubstr(std::string("<h3>dp on 2 devices (batch ") + batch + " a device)"));
  }
  EXPECT_THAT(page, Not(HasSubstr("repetition 0")));
}

TEST(HtmlPageTest, SaysWhetherTheSourcesWereChanged) {
  HtmlInput input = test::rich_input();
  Generator& generator = input.reports[0].generator;
  generator = {"0.1.0", "0123456789abcdef", false, ""};
  EXPECT_THAT(html_page(input), HasSubstr(">ddpbench 0.1.0 (0123456789ab)<"));
  generator.git_dirty = true;
  EXPECT_THAT(html_page(input), HasSubstr(">ddpbench 0.1.0 (0123456789ab with changes)<"));
  generator.git_dirty = std::nullopt;
  generator.git_reason = "the commit was given";
  EXPECT_THAT(html_page(input), HasSubstr(">ddpbench 0.1.0 (0123456789ab, changes unknown)<"));
}

TEST(HtmlPageTest, RunsThatAllFailedAreAPageToo) {
  const std::string page = html_page(test::barren_input());
  EXPECT_THAT(page, HasSubstr("Nothing to draw: "));
}

TEST(HtmlPageTest, SaysWhatMakesFiguresUncertain) {
  const std::string page = html_page(test::tuned_input());
  EXPECT_EQ(occurrences(page, "<details class=\"warning\">"), 1U);
  EXPECT_THAT(
      page,
      HasSubstr(
          "<summary>! other programs used 35 % of the CPU (1 of 22 runs) and 2 more</summary>"));
  for (const char* text : {"other programs used 35 % of the CPU", "1 of 1 settings are noisy",
                           "not steady when the warm-up ended"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_THAT(html_page(test::rich_input()), Not(HasSubstr("class=\"warning\"")));
}

TEST(HtmlPageTest, WarningsNameTheirReportAmongSeveral) {
  HtmlInput input = test::several_input();
  input.reports[1].cells = {{.runs = {0}, .noisy = true}};
  EXPECT_THAT(html_page(input), HasSubstr("[a] second.json: 1 of 1 settings"));
}

TEST(HtmlPageTest, ShowsWhatTuneFound) {
  const HtmlInput input = test::tuned_input();
  EXPECT_THAT(html_page(input), HasSubstr(input.reports.front().tune->conclusion));
}

TEST(HtmlPageTest, AdvisesOnTheSettingThatTheAnswerNames) {
  HtmlInput input = test::rich_input();
  const auto advice_of = [&](const char* strategy) -> std::string {
    for (const Explanation& one : explanations(all_runs(input.reports[0]))) {
      const report::Run& run = *one.runs[0].run;
      if (run.strategy == strategy && run.world_size == 4)
        return "What helps: " + pictures::escaped(one.verdict.advice) + ".";
    }
    return "";
  };
  ASSERT_NE(advice_of("ddp"), advice_of("dp"));
  EXPECT_THAT(html_page(input), HasSubstr(advice_of("ddp")));
  for (report::Run& run : input.reports[0].runs)
    if (run.strategy == "ddp") run.injected = "slow-rank";
  EXPECT_THAT(html_page(input), HasSubstr(advice_of("dp")));
}

// tune compares settings with each other; a run on one device has nothing to be compared with.
TEST(HtmlPageTest, HasNoHeadingOfVerdictsWithoutAny) {
  HtmlInput alone = test::rich_input();
  std::erase_if(alone.reports[0].runs, [](const auto& run) { return run.world_size > 1; });
  ASSERT_FALSE(alone.reports[0].runs.empty());
  for (const HtmlInput& input : {test::tuned_input(), test::barren_input(), alone}) {
    const std::string page = html_page(input);
    EXPECT_THAT(page, Not(HasSubstr("Why not faster"))) << input.names[0];
    EXPECT_THAT(page, Not(HasSubstr("#verdicts"))) << input.names[0];
    EXPECT_THAT(page, HasSubstr("id=\"verification\"")) << input.names[0];
  }
  const std::string rich = html_page(test::rich_input());
  EXPECT_THAT(rich, HasSubstr("Why not faster"));
  EXPECT_THAT(rich, HasSubstr("href=\"#verdicts\""));
}

TEST(HtmlPageTest, SaysWhatTheGateFound) {
  const std::string page = html_page(test::gated_input());
  for (const char* text :
       {"href=\"#gate\"", "the baseline is base.json", "REGRESSED: 1 pair compared",
        "not compared: new ps, 2 devices", "<h3>ddp, 2 devices", ">median step</th>",
        "5 new repetitions against 5 of the baseline", "<li>20.0 % slower "}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_LT(page.find("id=\"verdicts\""), page.find("id=\"gate\""));
  EXPECT_LT(page.find("id=\"gate\""), page.find("id=\"verification\""));
  EXPECT_THAT(html_page(test::rich_input()), Not(HasSubstr("id=\"gate\"")));
}

TEST(HtmlPageTest, TheSummaryBeginsWithTheVerdictOfTheGate) {
  HtmlInput input = test::gated_input();
  const std::string worse = html_page(input);
  const std::string alert = "<p class=\"alert bad\">Against base.json: <strong>REGRESSED: 1 pair";
  ASSERT_THAT(worse, HasSubstr(alert));
  EXPECT_THAT(
      worse,
      HasSubstr("<p class=\"headline\">ddp, 2 devices, shm: 20.0 % slower than base.json</p>"));
  EXPECT_EQ(occurrences(worse, "class=\"headline\""), 1U);
  EXPECT_LT(worse.find("id=\"summary-heading\""), worse.find(alert));
  EXPECT_LT(worse.find(alert), worse.find("id=\"runs\""));
  input.gate->result.verdict = GateVerdict::pass;
  EXPECT_THAT(html_page(input), HasSubstr("<p class=\"alert good\">Against base.json: "));
  input.gate = HtmlGate{{"base.json"}, {.refusal = "nothing alike"}};
  EXPECT_THAT(html_page(input),
              HasSubstr("<p class=\"alert warning\">Against base.json: <strong>not compared: "));
}

TEST(HtmlPageTest, TheHeadlineSaysThatRunsFailedWhateverTheOthersTook) {
  const auto headline = [](std::size_t failed, double factor) {
    const Report base = test::gate_report(test::steady());
    HtmlInput input{{"new.json"}, {test::gate_report(test::steady(factor))}};
    for (std::size_t i = 0; i < failed; ++i) input.reports[0].runs[i].status = Status::failed;
    input.gate = HtmlGate{{"base.json"}, check_reports(input.reports, {&base, 1}, {})};
    return html_page(input);
  };
  for (const std::size_t failed : {1U, 5U})
    EXPECT_THAT(headline(failed, 0.98),
                HasSubstr(fmt::format("<p class=\"headline\">ddp, 2 devices, shm: {} of 5 new "
                                      "repetitions failed (failed), 0 of 5 of the baseline</p>",
                                      failed)));
  EXPECT_THAT(headline(0, 1), HasSubstr("<p class=\"headline\">ddp, 2 devices, shm: as fast as "
                                        "base.json</p>"));
  EXPECT_THAT(headline(0, 0.99), HasSubstr("1.0 % faster than base.json</p>"));
  EXPECT_THAT(headline(0, 1.01), HasSubstr("1.0 % slower than base.json, as allowed</p>"));
}

// Green says that nothing is to be looked at.
TEST(HtmlPageTest, ShowsADisagreementInNoColourOfSuccess) {
  HtmlInput input{
      {"two.json"},
      {test::report_of({test::sample_run("single", 1, 3200), test::sample_run("ddp", 2, 6100)})}};
  for (auto& run : input.reports[0].runs) run.verification.steps = 3;
  EXPECT_THAT(html_page(input), HasSubstr("<li class=\"good\">All 2 agree with one device"));
  input.reports[0].runs[1].verification.status = "failed";
  EXPECT_THAT(html_page(input), HasSubstr("<li>1 of 2 agree with one device"));
}

TEST(HtmlPageTest, LeavesOutADeviceThatIsNotKnown) {
  HtmlInput input = test::rich_input();
  input.reports[0].started_at = "2026-11-28T10:00:00Z";
  for (auto& run : input.reports[0].runs) {
    run.device = "cuda";
    run.device_model.clear();
  }
  EXPECT_THAT(html_page(input), HasSubstr(">ddpbench, 2026-11-28</p>"));
}

TEST(HtmlPageTest, BeginsWithTheAnswerAndBarsOfSpeedUp) {
  HtmlInput input{
      {"two.json"},
      {test::report_of({test::sample_run("single", 1, 3200), test::sample_run("ddp", 2, 6100)})}};
  fill_scaling(input.reports[0]);
  const std::string page = html_page(input);
  EXPECT_THAT(page, HasSubstr("<p class=\"headline\">ddp on 2 devices: 1.91 times one device</p>"
                              "<ul class=\"chips\"><li title=\"a single device may be as fast\">"
                              "a single device may be as fast</li>"));
  EXPECT_THAT(page, HasSubstr(">samples/s: 6100 against 3200, global batch 128 instead of 64</p>"));
  EXPECT_THAT(page, HasSubstr("<svg class=\"bars\""));
  EXPECT_THAT(page, HasSubstr(">1.91</text>"));
  input.reports[0].runs[0].conditions.emplace().other_load_ratio = Figure::of(0.5);
  EXPECT_THAT(html_page(input), HasSubstr("<p class=\"headline\">No answer: other programs"));
  EXPECT_THAT(html_page(input), Not(HasSubstr("class=\"bars\"")));
}

TEST(HtmlPageTest, ShowsWhereTheStepOfTheFastestGoesBesideTheSpeedUps) {
  HtmlInput input = test::rich_input();
  for (int i = 0; i < 2; ++i) {
    const std::string page = html_page(input);
    const std::size_t first = page.find("<div class=\"first\">"), runs = page.find("id=\"runs\"");
    const std::size_t step = page.find("small-svg-breakdown-title");
    EXPECT_LT(first, page.find("<svg class=\"bars\""));
    EXPECT_EQ(step == std::string::npos, i == 1);
    EXPECT_TRUE(i == 1 || (first < step && step < runs));
    const std::size_t note = page.find("vertical stroke, and the figure beside each name");
    EXPECT_TRUE(i == 1 || (step < note && note < runs));
    // A run on one device has no speed-up, and its step is not explained.
    std::erase_if(input.reports[0].runs, [](const auto& run) { return run.world_size > 1; });
  }
}

TEST(HtmlPageTest, TitlesNameTheReports) {
  EXPECT_THAT(html_page(test::rich_input()),
              HasSubstr("<title>rich.json: simple_cnn on mnist (ddpbench)</title>"));
  EXPECT_THAT(html_page(test::swept_input()),
              HasSubstr("<title>monday-morning.json, tuesday-evening.json: simple_cnn"));
}

TEST(HtmlPageTest, CellsOfRunsSayWhichFigureTheyAre) {
  const std::string page = html_page(test::swept_input());
  // What is needed to choose, all columns, and their work and traffic.
  EXPECT_EQ(occurrences(page, "<table class=\"sortable cards\">"), 3U);
  for (const char* cell : {"<th scope=\"row\" data-label=\"report\"",
                           "data-label=\"strategy\" class=\"words", "data-label=\"samples/s\""}) {
    EXPECT_THAT(page, HasSubstr(cell));
  }
  EXPECT_THAT(page, Not(HasSubstr("data-label=\"worst tensor\"")));
}

TEST(HtmlPageTest, RunsHaveFurtherColumnsWhereOneOfThemKnowsTheFigure) {
  HtmlInput input = test::swept_input();
  const char* const labels[] = {"data-label=\"GFLOP/s a device\"", "data-label=\"share of peak %\"",
                                "data-label=\"messages a step\"", "data-label=\"on wire MB\""};
  for (const char* label : labels) EXPECT_THAT(html_page(input), HasSubstr(label));
  for (Report& report : input.reports) {
    for (auto& run : report.runs) {
      run.flops_per_sample.reset();
      run.traffic = {};
    }
  }
  for (const char* label : labels) EXPECT_THAT(html_page(input), Not(HasSubstr(label)));
}

TEST(HtmlPageTest, TimelinesSayWhereTheirAxesAre) {
  const std::string page = html_page(test::rich_input());
  EXPECT_THAT(page, testing::ContainsRegex(
                        "data-zoom=\"1 [0-9.]+ [0-9.]+\" aria-labelledby=\"svg-course-title"));
  EXPECT_THAT(page, testing::ContainsRegex("data-zoom=\"[0-9.]+ [0-9.]+ [0-9.]+\" "
                                           "aria-labelledby=\"svg-buckets-0-title"));
}

TEST(HtmlPageTest, SaysWhyTheGateComparedNothing) {
  HtmlInput input = test::rich_input();
  input.gate = HtmlGate{{"base.json"}, {.refusal = "nothing <b>alike</b>"}};
  EXPECT_THAT(html_page(input), HasSubstr("Not compared: nothing &lt;b&gt;alike&lt;/b&gt;"));
}

TEST(HtmlPageTest, ShowsCollectivesInPlaceOfRuns) {
  const std::string page = html_page(test::comm_input());
  for (const char* text :
       {"<h1>Collectives</h1>", "href=\"#collectives\"", "all_reduce", "data-v=\"1000\">1000 B<",
        "data-v=\"4096\">4 KiB<", "time us median", ">(IQR)<", "<p class=\"lead\">Collectives: shm",
        "data-v=\"1.25\">1.25<", "(1) nobody asked", "Memory bandwidth", ">50.50<"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  for (const char* text : {"id=\"runs\"", "id=\"pictures\"", "href=\"#runs\"", "No strategy"}) {
    EXPECT_THAT(page, Not(HasSubstr(text)));
  }
}

TEST(HtmlPageTest, SamplesDoNotMakeThePageLarge) {
  const HtmlInput input = test::large_input();
  std::size_t samples = 0;
  for (const auto& run : input.reports.front().runs) samples += run.step.samples_s.size();
  ASSERT_EQ(samples, 10'000'000U);
  EXPECT_LT(html_page(input).size(), 2'500'000U);
}

}  // namespace
}  // namespace ddpbench::report
