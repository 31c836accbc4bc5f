// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/trace_text.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace ddpbench::report {
namespace {

constexpr std::string_view kBegin = "{\n\"trace_part\": ";
constexpr const char* kName = "the trace of the ranks";
constexpr JsonLimits kLimits = {.most_bytes = 16 * kMiB, .unique_keys = false};
constexpr std::size_t kMostParts = 10'000;
constexpr std::array kLists = {"processes", "events", "flows", "counters"};

nlohmann::json encoded(const TraceProcess& one) {
  nlohmann::json threads = nlohmann::json::array();
  for (const auto& [number, name] : one.threads) threads.push_back({number, name});
  return nlohmann::json::array({one.id, one.name, std::move(threads), one.label});
}

nlohmann::json encoded(const TraceEvent& one) {
  return nlohmann::json::array({one.name, one.category, one.process, one.thread, one.begin_s,
                                one.end_s, nlohmann::json(one.arguments)});
}

nlohmann::json encoded(const TraceFlow& one) {
  return nlohmann::json::array(
      {one.name, one.process, one.from_thread, one.to_thread, one.from_s, one.to_s});
}

nlohmann::json encoded(const TraceCounter& one) {
  return nlohmann::json::array({one.name, one.process, one.time_s, nlohmann::json(one.values)});
}

void decode(const nlohmann::json& from, TraceProcess& to) {
  to = {.id = from.at(0), .name = from.at(1), .threads = {}, .label = from.at(3)};
  for (const nlohmann::json& thread : from.at(2)) to.threads[thread.at(0)] = thread.at(1);
}

void decode(const nlohmann::json& from, TraceEvent& to) {
  to = {from.at(0), from.at(1), from.at(2), from.at(3), from.at(4), from.at(5), from.at(6)};
}

void decode(const nlohmann::json& from, TraceFlow& to) {
  to = {from.at(0), from.at(1), from.at(2), from.at(3), from.at(4), from.at(5)};
}

void decode(const nlohmann::json& from, TraceCounter& to) {
  to = {from.at(0), from.at(1), from.at(2), from.at(3)};
}

// One line. Names may hold what is no UTF-8, as a host's.
std::string line_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Fills parts in turn.
class PartWriter {
 public:
  explicit PartWriter(std::size_t part_bytes) : part_bytes_(part_bytes) {}

  template <typename T>
  void append(std::size_t list, const std::vector<T>& all) {
    for (const T& one : all) {
      if (bytes_ >= part_bytes_) finish();
      std::string& lines = lists_.at(list);
      const std::size_t before = lines.size();
      lines += lines.empty() ? "\n" : ",\n";
      lines += line_of(encoded(one));
      bytes_ += lines.size() - before;
    }
  }

  std::vector<std::string> take(const std::map<std::string, std::string>& metadata) {
    finish();
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      const std::string own = i == 0 ? line_of(metadata) : "{}";
      texts.push_back(fmt::format("{}{},\n\"parts\": {},\n\"metadata\": {}{}\n}}\n", kBegin, i,
                                  bodies_.size(), own, bodies_[i]));
    }
    return texts;
  }

 private:
  void finish() {
    std::string body;
    for (std::size_t list = 0; list < kLists.size(); ++list) {
      body += fmt::format(",\n\"{}\": [{}]", kLists.at(list), std::exchange(lists_.at(list), ""));
    }
    bodies_.push_back(std::move(body));
    bytes_ = 0;
  }

  std::size_t part_bytes_, bytes_ = 0;
  std::array<std::string, kLists.size()> lists_;
  std::vector<std::string> bodies_;
};

template <typename T>
void read_list(const nlohmann::json& part, std::size_t list, std::vector<T>& all) {
  for (const nlohmann::json& one : part.at(kLists.at(list))) decode(one, all.emplace_back());
}

Trace decoded(const nlohmann::json& part) {
  Trace trace;
  trace.metadata = part.at("metadata");
  read_list(part, 0, trace.processes);
  read_list(part, 1, trace.events);
  read_list(part, 2, trace.flows);
  read_list(part, 3, trace.counters);
  return trace;
}

template <typename T>
void append_all(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::vector<std::string> trace_texts(const Trace& trace, std::size_t part_bytes) {
  PartWriter writer(part_bytes);
  writer.append(0, trace.processes);
  writer.append(1, trace.events);
  writer.append(2, trace.flows);
  writer.append(3, trace.counters);
  return writer.take(trace.metadata);
}

bool is_trace_text(std::string_view text) { return text.starts_with(kBegin); }

void TraceParts::add(const std::string& text) {
  const nlohmann::json part = parse_json(text, kName, kLimits);
  try {
    const std::size_t number = part.at("trace_part"), count = part.at("parts");
    if (number >= count || count > kMostParts || (count_ != 0 && count != count_)) {
      throw ConfigError(fmt::format("{}: part {} of {}", kName, number, count));
    }
    parts_.insert_or_assign(number, decoded(part));
    count_ = count;
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", kName, error.what()));
  }
}

std::optional<Trace> TraceParts::whole() const {
  if (count_ == 0 || parts_.size() != count_) return std::nullopt;
  Trace trace;
  for (const auto& [number, part] : parts_) {
    trace.metadata.insert(part.metadata.begin(), part.metadata.end());
    append_all(trace.processes, part.processes);
    append_all(trace.events, part.events);
    append_all(trace.flows, part.flows);
    append_all(trace.counters, part.counters);
  }
  return trace;
}

}  // namespace ddpbench::report
