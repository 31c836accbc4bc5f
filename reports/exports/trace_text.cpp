// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/trace_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/math.h"

namespace ddpbench::report {
namespace {

using nlohmann::json;

constexpr std::string_view kBegin = "{\n\"trace\": ";
constexpr const char* kName = "the trace of the ranks";
// The longest that travels in one piece, as for a store's value.
constexpr JsonLimits kLimits = {.most_bytes = 64 * kMiB, .unique_keys = false};

json encoded(const TraceProcess& one) {
  json threads = json::array();
  for (const auto& [number, name] : one.threads) threads.push_back({number, name});
  return json::array({one.id, one.name, std::move(threads), one.label});
}

json encoded(const TraceEvent& one) {
  return json::array({one.name, one.category, one.process, one.thread, one.begin_s, one.end_s,
                      json(one.arguments)});
}

json encoded(const TraceFlow& one) {
  return json::array({one.name, one.process, one.from_thread, one.to_thread, one.from_s, one.to_s});
}

json encoded(const TraceCounter& one) {
  return json::array({one.name, one.process, one.time_s, json(one.values)});
}

void decode(const json& from, TraceProcess& to) {
  to = {.id = from.at(0), .name = from.at(1), .threads = {}, .label = from.at(3)};
  for (const json& thread : from.at(2)) to.threads[thread.at(0)] = thread.at(1);
}

void decode(const json& from, TraceEvent& to) {
  to = {from.at(0), from.at(1), from.at(2), from.at(3), from.at(4), from.at(5), from.at(6)};
}

void decode(const json& from, TraceFlow& to) {
  to = {from.at(0), from.at(1), from.at(2), from.at(3), from.at(4), from.at(5)};
}

void decode(const json& from, TraceCounter& to) {
  to = {from.at(0), from.at(1), from.at(2), from.at(3)};
}

// The next member: a list with a line for each element. Names may hold what is no UTF-8: a host's.
template <typename T>
void append_list(std::string& text, const char* key, const std::vector<T>& all) {
  text += fmt::format(",\n\"{}\": [", key);
  const char* separator = "\n";
  for (const T& one : all) {
    text += separator;
    text += encoded(one).dump(-1, ' ', false, json::error_handler_t::replace);
    separator = ",\n";
  }
  text += "]";
}

template <typename T>
void read_list(const json& document, const char* key, std::vector<T>& all) {
  for (const json& one : document.at(key)) decode(one, all.emplace_back());
}

}  // namespace

std::string trace_text(const Trace& trace) {
  std::string text(kBegin);
  text += json(trace.metadata).dump(-1, ' ', false, json::error_handler_t::replace);
  append_list(text, "processes", trace.processes);
  append_list(text, "events", trace.events);
  append_list(text, "flows", trace.flows);
  append_list(text, "counters", trace.counters);
  return text + "\n}\n";
}

bool is_trace_text(std::string_view text) { return text.starts_with(kBegin); }

Trace parse_trace_text(const std::string& text) {
  const json document = parse_json(text, kName, kLimits);
  Trace trace;
  try {
    trace.metadata = document.at("trace");
    read_list(document, "processes", trace.processes);
    read_list(document, "events", trace.events);
    read_list(document, "flows", trace.flows);
    read_list(document, "counters", trace.counters);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", kName, error.what()));
  }
  return trace;
}

}  // namespace ddpbench::report
