// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Trace: what ran when, as plain data, and as Chrome trace events
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), which
// Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddpbench::report {

struct TraceProcess {
  int id = 0;
  std::string name;
  std::map<int, std::string> threads;  // by their number, which is their order
};

// On one thread, events either lie within each other or do not overlap.
struct TraceEvent {
  std::string name, category;
  int process = 0, thread = 0;
  double begin_s = 0, end_s = 0;
  std::map<std::string, std::int64_t> arguments;
};

// A moment on one thread that lets something begin on another one of the same process.
struct TraceFlow {
  std::string name;
  int process = 0;
  int from_thread = 0, to_thread = 0;
  double from_s = 0, to_s = 0;
};

struct Trace {
  std::map<std::string, std::string> metadata;
  std::vector<TraceProcess> processes;
  std::vector<TraceEvent> events;
  std::vector<TraceFlow> flows;
};

// JSON text: "traceEvents" in the order of time, after the names of processes and threads. Times
// are microseconds, rounded to nanoseconds so that what nests still nests.
std::string to_chrome_json(const Trace& trace);

}  // namespace ddpbench::report
