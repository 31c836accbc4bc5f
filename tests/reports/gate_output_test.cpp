// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The outputs of the gate for people and for programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reports/gate/gate_parts.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using test::check_one;
using test::gate_report;
using test::steady;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// A regression with hostile text, an inconclusive pair, one that passes, and one left alone.
GateResult mixed_result() {
  Report candidate = gate_report(steady(1.2)), base = gate_report(steady());
  for (report::Run& run : candidate.runs) run.injected = "slow: 100%, <b>&\"|\n::error::\x01\xff";
  const double noisy[] = {0.01, 0.03, 0.02, 0.015, 0.028};
  for (const int world_size : {3, 4, 5}) {
    for (std::size_t i = 0; i < 5; ++i) {
      report::Run run = test::gate_run(world_size == 3 ? noisy[i] : steady()[i]);
      run.world_size = world_size;
      candidate.runs.push_back(run);
      if (world_size < 5) base.runs.push_back(run);
    }
  }
  return check_one(candidate, base);
}

// The first element that is not closed properly or attribute that is not quoted. It knows no
// comments, no CDATA and no processing instruction but the first line: the gate writes none.
std::string xml_error(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = text.find("?>");
  if (!text.starts_with("<?xml ") || at == std::string::npos) return "no declaration";
  at += 2;
  while (at < text.size()) {
    const std::size_t begin = text.find('<', at);
    const std::string between = text.substr(at, begin - at);
    for (std::size_t i = 0; i < between.size(); ++i) {
      const auto byte = static_cast<unsigned char>(between[i]);
      if (byte < 0x20 && byte != '\n') return "control character";
      if (byte == '&' && between.find(';', i) == std::string::npos) return "bare &";
    }
    if (begin == std::string::npos) break;
    bool quoted = false;
    std::size_t end = begin + 1;
    for (; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<') return "< in a tag";
      if (static_cast<unsigned char>(text[end]) < 0x20) return "control character in a tag";
    }
    if (end >= text.size()) return "tag without end";
    const std::string tag = text.substr(begin + 1, end - begin - 1);
    const std::string name = tag.substr(
        tag.starts_with('/') ? 1 : 0, tag.find_first_of(" /", 1) - (tag.starts_with('/') ? 1 : 0));
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "wrong end of " + tag;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "no end of " + open.back();
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(GateTable, ShowsVerdictsFiguresAndWhatWasNotCompared) {
  const std::string text = render_gate_table(mixed_result(), 100);
  EXPECT_THAT(text, HasSubstr("REGRESSED ddp, 2 devices"));
  EXPECT_THAT(text, HasSubstr(": 20.0 % slower ("));
  EXPECT_THAT(text, HasSubstr("repetitions a side would decide"));
  EXPECT_THAT(text, AllOf(HasSubstr("not compared:"), HasSubstr("ddp, 5 devices, shm")));
  EXPECT_THAT(text, HasSubstr("3 pairs compared (1 REGRESSED, 1 INCONCLUSIVE, 1 PASS), 1 group"));
  EXPECT_THAT(text, Not(HasSubstr("\x01")));
}

TEST(GateTable, CallsWhatIsBetterBetter) {
  const GateResult result = check_one(gate_report(steady(0.909)), gate_report(steady()));
  EXPECT_THAT(render_gate_markdown(result),
              HasSubstr("| median step | 19.999 ms | 18.179 ms | 9.1 % better | 7.9 to 10.3 | "
                        "5.0 % | IMPROVED |"));
}

// A pair is said once: the figure that decided, the others in short, and what is not known.
TEST(GateTable, HasTwoLinesForAPair) {
  EXPECT_EQ(
      render_gate_table(check_one(gate_report(steady(0.909)), gate_report(steady())), 0),
      "IMPROVED ddp, 2 devices: 9.1 % faster (7.9 to 10.3), 20.00 -> 18.18 ms; allowed 5 %\n"
      "    5 against 5; p95 step 9.1 % better, throughput 10.0 % better; peak memory, final loss, "
      "accuracy unchanged\n"
      "IMPROVED: 1 pair compared (1 IMPROVED); changes are of means over repetitions\n");
  Report lacking = gate_report(steady());
  for (report::Run& run : lacking.runs) {
    run.epochs.clear();
    for (DeviceRow& device : run.devices) device.peak_reason = "gone";
  }
  EXPECT_THAT(render_gate_table(check_one(gate_report(steady()), lacking), 0),
              HasSubstr("PASS ddp, 2 devices: as fast (-1.3 to 1.3), 20.00 -> 20.00 ms"));
}

// Where slow machines have three digits before the point, too.
TEST(GateTable, HasTwoLinesForAPairOfAHundredColumns) {
  std::vector<double> before = steady(6.74), after = steady(7.565);
  const std::string text =
      render_gate_table(check_one(gate_report(after), gate_report(before)), 100);
  EXPECT_THAT(text, StartsWith("REGRESSED ddp, 2 devices: 12.2 % slower (10.8 to 13.7), 134.8 -> "
                               "151.3 ms; allowed 5 %\n    5 against 5; p95 step 12.2 % worse, "));
  EXPECT_THAT(text, ContainsRegex("\n    [^\n]*\nREGRESSED: 1 pair compared"));
}

// Its figures look well: those of the runs that did not fail.
TEST(GateTable, LeadsWithTheRunsThatFailedWhereNoFigureDecided) {
  Report candidate = gate_report(steady(0.98)), base = gate_report(steady());
  candidate.runs[0].status = Status::failed;
  EXPECT_THAT(render_gate_table(check_one(candidate, base), 0),
              AllOf(StartsWith("REGRESSED ddp, 2 devices: 1 of 5 new repetitions failed (failed), "
                               "0 of 5 of the baseline\n    4 against 5; median step "),
                    Not(ContainsRegex("failed \\(failed.*failed \\(failed"))));
  for (report::Run& run : candidate.runs) run.status = Status::failed;
  EXPECT_THAT(render_gate_table(check_one(candidate, base), 0),
              StartsWith("REGRESSED ddp, 2 devices: 5 of 5 new repetitions failed (failed), 0 of 5 "
                         "of the baseline\n    0 against 5\n"));
}

// What did not decide comes second, however undecided it is.
TEST(GateTable, LeadsWithTheStepWhereOnlyTheTailIsUndecided) {
  Report candidate = gate_report(steady()), base = gate_report(steady());
  for (std::size_t i = 0; i < 5; ++i) {
    candidate.runs[i].step.time_s->p95 = 0.02 * (1.1 + 0.3 * static_cast<double>(i));
    base.runs[i].step.time_s->p95 = 0.019 * (2.3 - 0.3 * static_cast<double>(i));
  }
  const GateResult result = check_one(candidate, base);
  ASSERT_EQ(test::figure_of(result, "p95_step_s").verdict, GateVerdict::inconclusive);
  EXPECT_THAT(render_gate_table(result, 0),
              AllOf(StartsWith("PASS ddp, 2 devices: as fast ("), HasSubstr("(INCONCLUSIVE)")));
}

TEST(GateTable, SaysWhyAFigureHasNoValues) {
  Report candidate = gate_report(steady());
  candidate.runs[3].epochs.back().train_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(render_gate_table(check_one(candidate, gate_report(steady())), 0),
              StartsWith("REGRESSED ddp, 2 devices: final loss missing in 1 of 5 new repetitions"));
}

TEST(GateText, HasNoNegativeZero) {
  FigureVerdict figure{.name = "median_step_s", .base = 0.02, .candidate = 0.0204};
  figure.change = 0.02;
  figure.change_low = -0.0002;
  figure.change_high = 0.041;
  EXPECT_EQ(interval_text(figure), "0.0 to 4.1");
}

TEST(GateTable, LeadsWithTheFigureThatDecided) {
  Report candidate = gate_report(steady());
  for (report::Run& run : candidate.runs) run.epochs.back().train_loss *= 2;
  const std::string text = render_gate_table(check_one(candidate, gate_report(steady())), 0);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr(": final loss 100.0 % worse, "),
            HasSubstr("\n    5 against 5; median step, p95 step, throughput, peak memory, accuracy "
                      "unchanged")));
}

TEST(GateTable, SaysThatAThroughputFellByAShareOfWhatItWas) {
  const GateResult result = check_one(gate_report(steady(9942.0 / 3516)), gate_report(steady()));
  for (const std::string& text : {render_gate_table(result, 0), render_gate_markdown(result)}) {
    EXPECT_THAT(text, ContainsRegex("throughput[^\n]* 64.6 % worse"));
  }
}

TEST(GateText, SaysHowFarAnIntervalReachesInTheDirectionOfTheChange) {
  FigureVerdict figure;
  figure.name = "median_step_s";
  const auto text = [&figure](double low, double high) {
    figure.change = (low + high) / 2;
    figure.change_low = low;
    figure.change_high = high;
    return interval_text(figure);
  };
  EXPECT_EQ(text(-0.015, 0.038), "-1.5 to 3.8");
  EXPECT_EQ(text(0.01, 0.038), "1.0 to 3.8");
  EXPECT_EQ(text(-0.038, -0.01), "1.0 to 3.8");
  EXPECT_EQ(change_text("final_test_accuracy", 0.003), "0.30 points worse");
  EXPECT_EQ(change_text("median_step_s", 0), "unchanged");
}

// What stands in place of a result when nothing could be compared.
GateResult refused() {
  return {.origin = {"2026-01-31T12:00:00Z", {"node"}},
          .refusal = "model_hash: new <a>, baseline b"};
}

TEST(GateRefusal, IsSaidByEveryOutput) {
  const GateResult result = refused();
  for (const std::string& text :
       {render_gate_table(result, 0), render_gate_markdown(result), render_gate_json(result),
        render_gate_junit(result), render_gate_github(result)}) {
    EXPECT_THAT(text, HasSubstr("model")) << text;
    EXPECT_THAT(text, Not(HasSubstr("PASS"))) << text;
  }
  const auto written = nlohmann::json::parse(render_gate_json(result));
  EXPECT_THAT(ddpbench::test::schema_errors(written, DDPBENCH_CHECK_SCHEMA), IsEmpty());
  EXPECT_EQ(written["verdict"], "NOT_COMPARED");
  EXPECT_EQ(written["error"], "model_hash: new <a>, baseline b");
  EXPECT_THAT(render_gate_github(result), StartsWith("::error title=ddpbench check::"));
}

TEST(GateRefusal, IsOneErrorOfJunit) {
  const std::string text = render_gate_junit(refused());
  EXPECT_EQ(xml_error(text), "") << text;
  EXPECT_EQ(count_of(text, "<testcase "), 1u);
  EXPECT_THAT(text, HasSubstr("<error type=\"NOT_COMPARED\" message=\"model_hash: new &lt;a&gt;"));
  EXPECT_THAT(text, HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""));
}

TEST(GateMarkdown, IsATableThatHostileTextCannotBreak) {
  const std::string text = render_gate_markdown(mixed_result());
  EXPECT_THAT(text, HasSubstr("| pair |"));
  EXPECT_THAT(text, HasSubstr("\\<b\\>\\&"));
  EXPECT_THAT(text, HasSubstr("\\|"));
  EXPECT_THAT(text, AllOf(HasSubstr("<details>"), HasSubstr("</details>")));
  // Every row of the first table has seven cells.
  std::istringstream lines(text);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ddp")) continue;
    ++rows;
    EXPECT_EQ(count_of(line, "|") - count_of(line, "\\|"), 8u) << line;
  }
  EXPECT_EQ(rows, 3);
}

TEST(GateJson, IsValidAgainstItsSchema) {
  Report failed = gate_report(steady());
  failed.runs[0].status = Status::failed;
  Report diverged = gate_report(steady());
  diverged.runs[0].epochs.back().train_loss = std::numeric_limits<double>::infinity();
  for (const GateResult& result :
       {mixed_result(), check_one(gate_report({0.02}), gate_report({0.03})),
        check_one(failed, gate_report(steady())), check_one(diverged, gate_report(steady()))}) {
    const auto written = nlohmann::json::parse(render_gate_json(result));
    EXPECT_THAT(ddpbench::test::schema_errors(written, DDPBENCH_CHECK_SCHEMA), IsEmpty());
    EXPECT_EQ(written["verdict"], to_string(result.verdict));
    EXPECT_EQ(written["error"], nullptr);
    EXPECT_EQ(written["pairs"].size(), result.pairs.size());
  }
}

TEST(GateJunit, IsWellFormedWithOneCaseAPair) {
  const std::string text = render_gate_junit(mixed_result());
  EXPECT_EQ(xml_error(text), "") << text;
  // Three pairs, and one group alone.
  EXPECT_THAT(text, HasSubstr("<testsuite name=\"ddpbench check\" tests=\"4\" failures=\"1\" "
                              "errors=\"1\" skipped=\"1\" "));
  EXPECT_EQ(count_of(text, "<testcase "), 4u);
  EXPECT_EQ(count_of(text, "<failure type=\"REGRESSED\""), 1u);
  EXPECT_EQ(count_of(text, "<skipped "), 1u);
  EXPECT_EQ(count_of(text, "<error type=\"INCONCLUSIVE\""), 1u);
  EXPECT_THAT(text, HasSubstr("&lt;b&gt;&amp;&quot;"));
}

TEST(GateJson, CountsBytesInWholeNumbers) {
  const GateResult result = check_one(gate_report(steady()), gate_report(steady()));
  const auto written = nlohmann::json::parse(render_gate_json(result));
  for (const auto& figure : written["pairs"][0]["figures"]) {
    const bool bytes = figure["figure"] == "peak_bytes";
    EXPECT_EQ(figure["baseline"].is_number_integer(), bytes) << figure;
    if (bytes) {
      EXPECT_EQ(figure["new"], 40 * 1024 * 1024);
    }
  }
}

TEST(GateJunit, SaysWhenWhereAndHowLongTheRunsWere) {
  const std::string text =
      render_gate_junit(check_one(gate_report(steady()), gate_report(steady())));
  EXPECT_THAT(text, HasSubstr("skipped=\"0\" time=\"60.500\" timestamp=\"2026-01-31T12:00:00\" "
                              "hostname=\"node\">"));
  EXPECT_THAT(text, HasSubstr("name=\"ddp, 2 devices, shm\" time=\"60.500\"><system-out>"));
}

TEST(GateJunit, ShowsARunThatFailedWhereNoFigureDoes) {
  Report candidate = gate_report(steady());
  candidate.runs[0].status = Status::failed;
  const std::string text = render_gate_junit(check_one(candidate, gate_report(steady())));
  EXPECT_EQ(count_of(text, "<failure "), 1u);
  EXPECT_THAT(text, HasSubstr("1 of 5 new repetitions failed"));
}

TEST(GateGithub, EscapesWhatWouldEndAnAnnotation) {
  const std::string text = render_gate_github(mixed_result());
  std::vector<std::string> kinds;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    kinds.push_back(line.substr(0, line.find(' ')));
    EXPECT_THAT(line, StartsWith("::"));
    // The line may hold only the escaped form of the title.
    const std::string title = line.substr(line.find("title=") + 6);
    EXPECT_THAT(title.substr(0, title.find("::")), Not(HasSubstr(",")));
  }
  EXPECT_THAT(kinds, ElementsAre("::error", "::warning", "::warning", "::notice"));
  EXPECT_THAT(text, HasSubstr("slow%3A 100%25%2C <b>&\"|%0A%3A%3Aerror"));
  EXPECT_THAT(text, HasSubstr("%0A20.0 %25 slower ("));
}

TEST(GateGithub, HasNoErrorWhereAllPasses) {
  const std::string text =
      render_gate_github(check_one(gate_report(steady()), gate_report(steady())));
  EXPECT_THAT(text, StartsWith("::notice title=ddpbench check::PASS: 1 pair compared"));
}

}  // namespace
}  // namespace ddpbench::report
