// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A trace of which work ran when: as plain data, and as the Chrome trace events
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU) that Perfetto
// and chrome://tracing open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddpbench::report {

struct TraceProcess {
  int id = 0;
  std::string name;
  std::map<int, std::string> threads;  // by their number, in the order in which they are shown
  std::string label;                   // shown beside the name; may be empty
};

// Two events of one thread are nested or do not overlap.
struct TraceEvent {
  std::string name, category;
  int process = 0, thread = 0;
  double begin_s = 0, end_s = 0;
  std::map<std::string, std::int64_t> arguments;
};

// An arrow: a moment on one thread lets an event of another thread begin, in the same process.
struct TraceFlow {
  std::string name;
  int process = 0;
  int from_thread = 0, to_thread = 0;
  double from_s = 0, to_s = 0;
};

// The values that a figure of a process has from a moment on; viewers stack them.
struct TraceCounter {
  std::string name;
  int process = 0;
  double time_s = 0;
  std::map<std::string, std::int64_t> values;
};

struct Trace {
  std::map<std::string, std::string> metadata;
  std::vector<TraceProcess> processes;
  std::vector<TraceEvent> events;
  std::vector<TraceFlow> flows;
  std::vector<TraceCounter> counters;
};

// JSON text. Its "traceEvents" are the names of processes and threads, then the events in the order
// of time. Times are in microseconds, rounded to eighths: their sums are exact in doubles, so that
// nested events stay nested for every viewer.
std::string to_chrome_json(const Trace& trace);

}  // namespace ddpbench::report
