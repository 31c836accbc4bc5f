// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JUnit XML as CI servers read it: a testsuite for each pair, with a testcase for each figure. One
// more testcase stands for the pair as a whole, with what no figure shows (a run that failed).
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_text.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

// printable() removes control characters, which XML 1.0 cannot express.
std::string xml(const std::string& text) {
  std::string result;
  for (const char c : printable(valid_utf8(text))) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string outcome(GateVerdict verdict, const std::string& message) {
  if (verdict == GateVerdict::pass || verdict == GateVerdict::improved) {
    return fmt::format("<system-out>{}</system-out>", xml(message));
  }
  const char* element = verdict == GateVerdict::regressed ? "failure" : "error";
  return fmt::format("<{} type=\"{}\" message=\"{}\"/>", element, to_string(verdict), xml(message));
}

// `seconds`: the time of the runs for the case of the runs; a figure takes none of its own.
std::string testcase(const std::string& suite, const std::string& name, const std::string& content,
                     double seconds = 0) {
  return fmt::format(
      "    <testcase classname=\"ddpbench.{}\" name=\"{}\" time=\"{:.3f}\">{}</testcase>\n",
      xml(suite), xml(name), seconds, content);
}

struct Counts {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
  void add(GateVerdict verdict) {
    ++tests;
    failures += verdict == GateVerdict::regressed ? 1 : 0;
    errors += verdict == GateVerdict::inconclusive ? 1 : 0;
  }
  void add(const Counts& other) {
    tests += other.tests;
    failures += other.failures;
    errors += other.errors;
    skipped += other.skipped;
    seconds += other.seconds;
  }
  std::string attributes() const {
    return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"",
                       tests, failures, errors, skipped, seconds);
  }
};

// A testsuite of these cases. The schemas of JUnit want a time of day without a zone; it is UTC.
std::string testsuite(const std::string& name, const Counts& counts, const GateOrigin& origin,
                      const std::string& cases) {
  std::string_view time = origin.started_at;
  if (time.ends_with('Z')) time.remove_suffix(1);
  const std::string timestamp =
      time.empty() ? "" : fmt::format(" timestamp=\"{}\"", xml(std::string(time)));
  return fmt::format("  <testsuite name=\"{}\" {}{} hostname=\"{}\">\n{}  </testsuite>\n",
                     xml(name), counts.attributes(), timestamp,
                     xml(fmt::format("{}", fmt::join(origin.hosts, "+"))), cases);
}

// A figure that is too noisy is no error unless its pair is INCONCLUSIVE.
GateVerdict shown(const FigureVerdict& figure, const PairVerdict& pair) {
  return std::min(figure.verdict, pair.verdict);
}

std::string pair_suite(const PairVerdict& pair, const GateResult& result, Counts& all) {
  const std::string title = pair_title(pair);
  Counts counts;
  counts.seconds = pair.candidate_s;
  std::string message = repetitions_text(pair);
  for (const std::string& note : pair.notes) message += "; " + note;
  GateVerdict rest = pair.verdict;  // what no figure shows
  std::string cases;
  for (const FigureVerdict& figure : pair.figures) {
    const GateVerdict verdict = shown(figure, pair);
    if (verdict >= pair.verdict) rest = GateVerdict::pass;
    counts.add(verdict);
    cases += testcase(title, figure_heading(figure),
                      outcome(verdict, figure_sentence(figure, result.options)));
  }
  counts.add(rest);
  cases = testcase(title, "runs", outcome(rest, message), pair.candidate_s) + cases;
  all.add(counts);
  return testsuite(title, counts, result.origin, cases);
}

std::string refusal_suite(const GateResult& result, Counts& all) {
  Counts counts;
  counts.tests = counts.errors = 1;
  all.add(counts);
  return testsuite(
      "check", counts, result.origin,
      testcase("check", "comparison",
               fmt::format("<error type=\"NOT_COMPARED\" message=\"{}\"/>", xml(result.refusal))));
}

std::string uncompared_suite(const GateResult& result, Counts& all) {
  if (result.uncompared.empty()) return "";
  Counts counts;
  std::string cases;
  for (const UncomparedRuns& runs : result.uncompared) {
    ++counts.tests;
    ++counts.skipped;
    cases += testcase("not compared", to_string(runs.key, runs.setting),
                      fmt::format("<skipped message=\"{}\"/>", xml(uncompared_text(runs))));
  }
  all.add(counts);
  return testsuite("not compared", counts, result.origin, cases);
}

}  // namespace

std::string render_gate_junit(const GateResult& result) {
  Counts all;
  std::string suites;
  for (const PairVerdict& pair : result.pairs) suites += pair_suite(pair, result, all);
  suites += uncompared_suite(result, all);
  if (!result.refusal.empty()) suites += refusal_suite(result, all);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"ddpbench check\" "
      "{}>\n{}</testsuites>\n",
      all.attributes(), suites);
}

}  // namespace ddpbench::report
