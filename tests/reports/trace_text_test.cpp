// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/trace_text.h"

#include <gtest/gtest.h>

#include <sstream>

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

TEST(TraceText, LosesNothing) {
  const std::string text = trace_text(sample_trace());
  EXPECT_TRUE(is_trace_text(text));
  EXPECT_EQ(parse_trace_text(text), sample_trace());
  EXPECT_EQ(parse_trace_text(trace_text({})), Trace());
}

// As a report: what reads lines finds its end, and nothing that looks like one before.
TEST(TraceText, BeginsAndEndsWithALineThatIsABraceAlone) {
  std::istringstream text(trace_text(sample_trace()));
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
  const std::string whole = trace_text(sample_trace());
  for (const std::string& text :
       {std::string("{\n\"trace\": {}\n}\n"), std::string("[]"), whole.substr(0, whole.size() / 2),
        std::string("{\n\"trace\": {},\"processes\": [[0]],\"events\": [],\"flows\": [],"
                    "\"counters\": []\n}\n"),
        std::string("{\n\"trace\": {},\"processes\": [],\"events\": [[0, 1, 2, 3, 4, 5, 6]],"
                    "\"flows\": [],\"counters\": []\n}\n")}) {
    EXPECT_THROW(parse_trace_text(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace ddpbench::report
