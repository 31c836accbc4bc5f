// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TraceProcess, id, name, threads, label)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TraceEvent, name, category, process, thread, begin_s, end_s,
                                   arguments)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TraceFlow, name, process, from_thread, to_thread, from_s, to_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TraceCounter, name, process, time_s, values)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trace, metadata, processes, events, flows, counters)

namespace {

constexpr std::string_view kPartBegin = "{\n\"trace_part\": ";
constexpr const char* kPartName = "the trace of the ranks";

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

Json name_event(const char* what, int process, int thread, const char* key, Json value) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", process},
          {"tid", thread},
          {"args", {{key, std::move(value)}}}};
}

void append_names(const TraceProcess& process, Json& events) {
  events.push_back(name_event("process_name", process.id, 0, "name", process.name));
  events.push_back(name_event("process_sort_index", process.id, 0, "sort_index", process.id));
  if (!process.label.empty()) {
    events.push_back(name_event("process_labels", process.id, 0, "labels", process.label));
  }
  for (const auto& [thread, name] : process.threads) {
    events.push_back(name_event("thread_name", process.id, thread, "name", name));
    events.push_back(name_event("thread_sort_index", process.id, thread, "sort_index", thread));
  }
}

Timed interval(const TraceEvent& event) {
  const std::int64_t begin = ticks(event.begin_s);
  const std::int64_t length = std::max<std::int64_t>(0, ticks(event.end_s) - begin);
  Json json = {{"name", event.name},        {"cat", event.category},       {"ph", "X"},
               {"ts", microseconds(begin)}, {"dur", microseconds(length)}, {"pid", event.process},
               {"tid", event.thread}};
  for (const auto& [name, value] : event.arguments) json["args"][name] = value;
  return {begin, length, event.begin_s, event.end_s, std::move(json)};
}

Timed moment(const TraceFlow& flow, const char* kind, int thread, double time_s) {
  const std::int64_t begin = ticks(time_s);
  return {begin,
          0,
          time_s,
          time_s,
          {{"name", flow.name},
           {"cat", "bucket"},
           {"ph", kind},
           {"ts", microseconds(begin)},
           {"pid", flow.process},
           {"tid", thread}}};
}

void append_flow(const TraceFlow& flow, std::size_t id, std::vector<Timed>& events) {
  Timed ready = moment(flow, "i", flow.from_thread, flow.from_s);
  ready.json["s"] = "t";
  Timed from = moment(flow, "s", flow.from_thread, flow.from_s);
  Timed to = moment(flow, "f", flow.to_thread, flow.to_s);
  from.json["id"] = to.json["id"] = id;
  to.json["bp"] = "e";
  for (Timed* event : {&ready, &from, &to}) events.push_back(std::move(*event));
}

Timed change(const TraceCounter& counter) {
  const std::int64_t begin = ticks(counter.time_s);
  Json json = {
      {"name", counter.name}, {"ph", "C"}, {"ts", microseconds(begin)}, {"pid", counter.process}};
  for (const auto& [name, value] : counter.values) json["args"][name] = value;
  return {begin, 0, counter.time_s, counter.time_s, std::move(json)};
}

}  // namespace

std::string to_chrome_json(const Trace& trace) {
  Json events = Json::array();
  for (const TraceProcess& process : trace.processes) append_names(process, events);
  std::vector<Timed> timed;
  for (const TraceEvent& event : trace.events) timed.push_back(interval(event));
  for (std::size_t i = 0; i < trace.flows.size(); ++i) append_flow(trace.flows[i], i, timed);
  for (const TraceCounter& counter : trace.counters) timed.push_back(change(counter));
  std::ranges::stable_sort(timed, comes_before);
  for (Timed& event : timed) events.push_back(std::move(event.json));
  const Json document = {
      {"displayTimeUnit", "ms"}, {"otherData", trace.metadata}, {"traceEvents", std::move(events)}};
  return document.dump() + "\n";
}

std::vector<std::string> trace_texts(const Trace& trace, std::size_t part_items) {
  std::vector<Trace> parts = {{.metadata = trace.metadata, .processes = trace.processes}};
  std::size_t items = 0;  // of the last part
  const auto spread = [&](auto Trace::*list) {
    for (const auto& item : trace.*list) {
      if (items++ == part_items) {
        parts.emplace_back();
        items = 1;
      }
      (parts.back().*list).push_back(item);
    }
  };
  spread(&Trace::events);
  spread(&Trace::flows);
  spread(&Trace::counters);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Names may hold what is no UTF-8, as a host's.
    texts.push_back(fmt::format(
        "{}{},\n\"parts\": {},\n\"trace\": {}\n}}\n", kPartBegin, i, parts.size(),
        nlohmann::json(parts[i]).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  return texts;
}

bool is_trace_text(std::string_view text) { return text.starts_with(kPartBegin); }

void TraceParts::add(const std::string& text) {
  constexpr std::size_t kMostParts = 10'000;
  const nlohmann::json part =
      parse_json(text, kPartName, {.most_bytes = 16 * kMiB, .unique_keys = false});
  try {
    const std::size_t number = part.at("trace_part"), count = part.at("parts");
    if (number >= count || count > kMostParts || (count_ != 0 && count != count_)) {
      throw ConfigError(fmt::format("{}: part {} of {}", kPartName, number, count));
    }
    parts_.insert_or_assign(number, part.at("trace").get<Trace>());
    count_ = count;
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", kPartName, error.what()));
  }
}

std::optional<Trace> TraceParts::whole() const {
  if (count_ == 0 || parts_.size() != count_) return std::nullopt;
  Trace trace;
  for (const auto& [number, part] : parts_) {
    trace.metadata.insert(part.metadata.begin(), part.metadata.end());
    const auto append = [&](auto Trace::*list) {
      (trace.*list).insert((trace.*list).end(), (part.*list).begin(), (part.*list).end());
    };
    append(&Trace::processes);
    append(&Trace::events);
    append(&Trace::flows);
    append(&Trace::counters);
  }
  return trace;
}

}  // namespace ddpbench::report
