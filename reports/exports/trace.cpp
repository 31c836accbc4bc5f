// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/ranges.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {

namespace {

// Viewers add a begin and a duration, some as decimals, some as doubles, some as whole nanoseconds.
// Whatever they do, the sums of whole ticks of 125 ns are exact: they are eighths of a microsecond,
// which both decimals (of three digits) and doubles hold. Sums of other decimals are not, and then
// an event seems to end 1e-11 us after the one that it lies in.
constexpr double kTicksPerMicrosecond = 8;
std::int64_t ticks(double seconds) { return std::llround(seconds * 1e6 * kTicksPerMicrosecond); }
double microseconds(std::int64_t ticks) {
  return static_cast<double>(ticks) / kTicksPerMicrosecond;
}

// An event and its sort key: of two that begin at once the longer comes first, as it holds the
// other. What rounding makes equal is told apart by the times before.
struct Timed {
  std::int64_t begin = 0, length = 0;  // ticks
  double begin_s = 0, end_s = 0;
  Json json;
};

bool comes_before(const Timed& a, const Timed& b) {
  return std::tuple(a.begin, -a.length, a.begin_s, -a.end_s) <
         std::tuple(b.begin, -b.length, b.begin_s, -b.end_s);
}

void append_names(const TraceProcess& process, Json& events) {
  const auto add = [&](const char* what, int thread, const char* key, Json value) {
    events.push_back({{"name", what},
                      {"ph", "M"},
                      {"pid", process.id},
                      {"tid", thread},
                      {"args", {{key, std::move(value)}}}});
  };
  add("process_name", 0, "name", process.name);
  add("process_sort_index", 0, "sort_index", process.id);
  if (!process.label.empty()) add("process_labels", 0, "labels", process.label);
  for (const auto& [thread, name] : process.threads) {
    add("thread_name", thread, "name", name);
    add("thread_sort_index", thread, "sort_index", thread);
  }
}

Timed timed(double begin_s, double end_s, Json json) {
  const std::int64_t begin = ticks(begin_s);
  json["ts"] = microseconds(begin);
  return {begin, std::max<std::int64_t>(0, ticks(end_s) - begin), begin_s, end_s, std::move(json)};
}

Timed interval(const TraceEvent& event) {
  Timed result = timed(event.begin_s, event.end_s,
                       {{"name", event.name},
                        {"cat", event.category},
                        {"ph", "X"},
                        {"pid", event.process},
                        {"tid", event.thread}});
  result.json["dur"] = microseconds(result.length);
  for (const auto& [name, value] : event.arguments) result.json["args"][name] = value;
  return result;
}

void append_flow(const TraceFlow& flow, std::size_t id, std::vector<Timed>& events) {
  const auto add = [&](const char* kind, int thread, double time_s, const char* key, Json value) {
    Json json = {{"name", flow.name},   {"cat", "bucket"}, {"ph", kind},
                 {"pid", flow.process}, {"tid", thread},   {key, std::move(value)}};
    if (kind[0] != 'i') json["id"] = id;
    events.push_back(timed(time_s, time_s, std::move(json)));
  };
  add("i", flow.from_thread, flow.from_s, "s", "t");
  add("s", flow.from_thread, flow.from_s, "id", id);
  add("f", flow.to_thread, flow.to_s, "bp", "e");
}

Timed change(const TraceCounter& counter) {
  return timed(
      counter.time_s, counter.time_s,
      {{"name", counter.name}, {"ph", "C"}, {"pid", counter.process}, {"args", counter.values}});
}

}  // namespace

std::string to_chrome_json(const Trace& trace) {
  Json events = Json::array();
  for (const TraceProcess& process : trace.processes) append_names(process, events);
  std::vector<Timed> timed = mapped(trace.events, interval);
  for (std::size_t i = 0; i < trace.flows.size(); ++i) append_flow(trace.flows[i], i, timed);
  for (const TraceCounter& counter : trace.counters) timed.push_back(change(counter));
  std::ranges::stable_sort(timed, comes_before);
  for (Timed& event : timed) events.push_back(std::move(event.json));
  const Json document = {
      {"displayTimeUnit", "ms"}, {"otherData", trace.metadata}, {"traceEvents", std::move(events)}};
  return document.dump() + "\n";
}

}  // namespace ddpbench::report
