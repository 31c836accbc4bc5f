// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace ddpbench::report {
namespace {

Trace sample_trace() {
  Trace trace;
  trace.metadata = {{"time_0", "2026-01-31T12:00:00.000Z"}};
  trace.processes = {{0, "rank 0", {{1, "steps"}, {2, "compute"}}, "time 0"},
                     {1, "rank 1", {}, ""}};
  trace.events = {{"step 0", "step", 0, 1, 0.1, 1.0 / 3, {{"epoch", 2}, {"bytes", 1LL << 40}}},
                  {"\"}\n{", "phase", 1, 2, 0, 1e-9, {}}};
  trace.flows = {{"bucket 0 ready", 0, 2, 5, 0.25, 0.75}};
  trace.counters = {{"bytes under way", 1, 0.5, {{"transferring", 64}}}};
  return trace;
}

std::optional<Trace> put_together(const std::vector<std::string>& parts) {
  TraceParts trace;
  for (const std::string& part : parts) trace.add(part);
  return trace.whole();
}

TEST(TraceText, LosesNothingHoweverManyPartsItHasAndInWhicheverOrderTheyCome) {
  EXPECT_EQ(put_together(trace_texts({})), Trace());
  EXPECT_EQ(trace_texts(sample_trace()).size(), 1u);
  for (const std::size_t part_items : {1U, 3U, 100U}) {
    std::vector<std::string> parts = trace_texts(sample_trace(), part_items);
    for (const std::string& part : parts) EXPECT_TRUE(is_trace_text(part));
    EXPECT_EQ(put_together(parts), sample_trace());
    std::ranges::reverse(parts);
    EXPECT_EQ(put_together(parts), sample_trace());
  }
  EXPECT_EQ(trace_texts(sample_trace(), 1).size(), 4u) << "an event, flow or counter each";
}

TEST(TraceText, IsNoTraceWhileAPartIsMissing) {
  std::vector<std::string> parts = trace_texts(sample_trace(), 1);
  EXPECT_FALSE(put_together({}));
  const std::string lost = parts.back();
  parts.pop_back();
  EXPECT_FALSE(put_together(parts));
  parts.push_back(parts.back());
  EXPECT_FALSE(put_together(parts));
  parts.push_back(lost);
  EXPECT_EQ(put_together(parts), sample_trace());
}

// As a report: what reads lines finds its end, and nothing that looks like one before.
TEST(TraceText, BeginsAndEndsWithALineThatIsABraceAlone) {
  std::istringstream text(trace_texts(sample_trace()).at(0));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  EXPECT_EQ(lines.front(), "{");
  EXPECT_EQ(lines.back(), "}");
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    EXPECT_NE(lines[i], "{");
    EXPECT_NE(lines[i], "}");
  }
}

TEST(TraceText, IsNotTakenFromAnythingElse) {
  EXPECT_FALSE(is_trace_text("{\n  \"schema_version\": 1\n}\n"));
  const std::string whole = trace_texts(sample_trace()).at(0);
  const auto part = [](const std::string& numbers, const std::string& processes,
                       const std::string& events) {
    return "{\n" + numbers + ",\"trace\": {\"metadata\": {},\"processes\": [" + processes +
           "],\"events\": [" + events + "],\"flows\": [],\"counters\": []}}\n";
  };
  const std::string first = "\"trace_part\": 0,\"parts\": 1";
  EXPECT_TRUE(put_together({part(first, "", "")}));
  for (const std::string& text :
       {std::string("{\n\"trace_part\": 0\n}\n"), std::string("[]"),
        whole.substr(0, whole.size() / 2), part(first, "[0]", ""),
        part(first, "", "[0, 1, 2, 3, 4, 5, 6]"), part("\"trace_part\": 1,\"parts\": 1", "", ""),
        part("\"trace_part\": -1,\"parts\": 1", "", ""),
        part("\"trace_part\": 0,\"parts\": 1000000000", "", "")}) {
    EXPECT_THROW(put_together({text}), ConfigError) << text;
  }
  TraceParts two;
  two.add(trace_texts(sample_trace(), 1).at(0));
  EXPECT_THROW(two.add(whole), ConfigError) << "of another number of parts";
}

}  // namespace
}  // namespace ddpbench::report
