// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/trace_checker.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace ddpbench::test {
namespace {

using nlohmann::json;
using Thread = std::pair<int, int>;

// Microseconds, in doubles and without any tolerance, as viewers compare them.
struct Span {
  double begin = 0, end = 0;
};

double time_of(const json& event) { return event["ts"].get<double>(); }

Span span_of(const json& event) {
  return {time_of(event), time_of(event) + event["dur"].get<double>()};
}

Thread thread_of(const json& event) { return {event["pid"].get<int>(), event["tid"].get<int>()}; }

std::string category_of(const json& event) { return event.value("cat", ""); }

std::map<int, std::vector<Span>> steps_by_process(const json& events) {
  std::map<int, std::vector<Span>> steps;
  for (const json& event : events) {
    if (category_of(event) == "step") steps[event["pid"]].push_back(span_of(event));
  }
  return steps;
}

bool lies_in_any(const Span& span, const std::vector<Span>& steps) {
  return std::ranges::any_of(
      steps, [&](const Span& step) { return step.begin <= span.begin && span.end <= step.end; });
}

void check_nesting(const json& events, std::vector<std::string>& problems) {
  std::map<Thread, std::vector<Span>> open;
  for (const json& event : events) {
    if (event["ph"] != "X") continue;
    const Span span = span_of(event);
    auto& stack = open[thread_of(event)];
    while (!stack.empty() && stack.back().end <= span.begin) stack.pop_back();
    if (!stack.empty() && span.end > stack.back().end) {
      problems.push_back("overlaps another event: " + event.dump());
    }
    stack.push_back(span);
  }
}

void check_names(const json& events, std::vector<std::string>& problems) {
  std::set<int> processes;
  std::set<Thread> threads;
  for (const json& event : events) {
    if (event["name"] == "process_name") processes.insert(event["pid"].get<int>());
    if (event["name"] == "thread_name") threads.insert(thread_of(event));
    if (event["ph"] == "M") continue;
    if (event["ph"] == "C" && processes.contains(event["pid"].get<int>())) continue;
    if (!processes.contains(event["pid"].get<int>()))
      problems.push_back("no process: " + event.dump());
    if (!threads.contains(thread_of(event))) {
      problems.push_back("no thread: " + event.dump());
    }
  }
}

}  // namespace

std::vector<std::string> trace_problems(const json& trace) {
  const json& events = trace.at("traceEvents");
  std::vector<std::string> problems;
  const auto steps = steps_by_process(events);
  double now = -std::numeric_limits<double>::infinity();
  for (const json& event : events) {
    if (event["ph"] == "M") continue;
    if (time_of(event) < 0) problems.push_back("before time 0: " + event.dump());
    if (time_of(event) < now) problems.push_back("out of order: " + event.dump());
    now = time_of(event);
    if (event["ph"] != "X" || category_of(event) == "epoch") continue;
    const auto own = steps.find(event["pid"]);
    if (own == steps.end() || !lies_in_any(span_of(event), own->second)) {
      problems.push_back("in no step: " + event.dump());
    }
  }
  check_nesting(events, problems);
  check_names(events, problems);
  return problems;
}

int count_events(const json& trace, int process, const std::string& category,
                 const std::string& name) {
  return static_cast<int>(std::ranges::count_if(trace.at("traceEvents"), [&](const json& event) {
    return event["ph"] == "X" && event["pid"] == process && category_of(event) == category &&
           event["name"].get<std::string>().starts_with(name);
  }));
}

std::vector<std::string> process_names(const json& trace) {
  std::map<int, std::string> names;
  for (const json& event : trace.at("traceEvents")) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  }
  std::vector<std::string> ordered;
  for (const auto& [process, name] : names) ordered.push_back(name);
  return ordered;
}

}  // namespace ddpbench::test
