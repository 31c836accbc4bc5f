// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A trace of which work ran when: as plain data, and as the Chrome trace events
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU) that Perfetto
// and chrome://tracing open.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::report {

struct TraceProcess {
  int id = 0;
  std::string name;
  std::map<int, std::string> threads;  // by their number, in the order in which they are shown
  std::string label;                   // shown beside the name; may be empty
  bool operator==(const TraceProcess&) const = default;
};

// Two events of one thread are nested or do not overlap.
struct TraceEvent {
  std::string name, category;
  int process = 0, thread = 0;
  double begin_s = 0, end_s = 0;
  std::map<std::string, std::int64_t> arguments;
  bool operator==(const TraceEvent&) const = default;
};

// An arrow: a moment on one thread lets an event of another thread begin, in the same process.
struct TraceFlow {
  std::string name;
  int process = 0;
  int from_thread = 0, to_thread = 0;
  double from_s = 0, to_s = 0;
  bool operator==(const TraceFlow&) const = default;
};

// The values that a figure of a process has from a moment on; viewers stack them.
struct TraceCounter {
  std::string name;
  int process = 0;
  double time_s = 0;
  std::map<std::string, std::int64_t> values;
  bool operator==(const TraceCounter&) const = default;
};

struct Trace {
  std::map<std::string, std::string> metadata;
  std::vector<TraceProcess> processes;
  std::vector<TraceEvent> events;
  std::vector<TraceFlow> flows;
  std::vector<TraceCounter> counters;
  bool operator==(const Trace&) const = default;
};

// JSON text. Its "traceEvents" are the names of processes and threads, then the events in the order
// of time. Times are in microseconds, rounded to eighths: their sums are exact in doubles, so that
// nested events stay nested for every viewer.
std::string to_chrome_json(const Trace& trace);

// The trace as text from one process to another of the same program, in parts of at most
// `part_items` events, flows and counters, whose order does not matter. There is at least one. A
// part is JSON whose first line and last are a brace alone, as in a report: a reader of lines finds
// both in one stream. It loses nothing.
std::vector<std::string> trace_texts(const Trace& trace, std::size_t part_items = 4096);

// Whether `text` begins like a part: no report does.
bool is_trace_text(std::string_view text);

// Puts a trace together from its parts.
class TraceParts {
 public:
  // The same part may come again. Throws ConfigError for anything that trace_texts() does not
  // write.
  void add(const std::string& text);
  // The trace, once all parts are here. Events of one list are in the order in which they were.
  std::optional<Trace> whole() const;

 private:
  std::size_t count_ = 0;
  std::map<std::size_t, Trace> parts_;  // by their number
};

}  // namespace ddpbench::report
