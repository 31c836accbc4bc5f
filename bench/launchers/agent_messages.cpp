// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_messages.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "bench/host/build_info.h"
#include "bench/options/options.h"
#include "bench/run/report_output.h"
#include "reports/json/report_json.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;

std::string line_of(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// ---- the environment travels as that of a report without runs, which has a reader ----

json environment_json(const report::Environment& environment) {
  report::Report report;
  report.generator = generator();
  report.environment = environment;
  report.started_at = report.finished_at = utc_timestamp();
  report.config_json = "{}";
  return json::parse(report::report_text(report));
}

report::Environment environment_from(const json& document) {
  return report::parse_report(document.dump(), "the message of an agent").environment;
}

json body(const AgentGreeting& greeting) {
  return {{"greeting", {{"device", greeting.device}, {"directory", greeting.directory}}}};
}

json body(const AgentRun& run) {
  json ranks = json::array();
  for (const AgentRun::Rank& rank : run.ranks) {
    ranks.push_back({{"rank", rank.rank}, {"variables", rank.variables}});
  }
  return {{"run",
           {{"threads", run.threads_per_device},
            {"variables", run.variables},
            {"ranks", std::move(ranks)}}}};
}

json body(const AgentSignal& signal) { return {{"signal", signal.number}}; }

json body(const HostView& host) {
  return {{"host",
           {{"version", host.version},
            {"name", host.name},
            {"mark", host.mark},
            {"gpus", to_json(host.gpus)},
            {"note", host.note},
            {"environment", environment_json(host.environment)}}}};
}

json body(const RankLine& line) {
  return {{line.is_error ? "error" : "output", {{"rank", line.rank}, {"text", line.text}}}};
}

json body(const RankEnd& end) {
  return {{"end",
           {{"rank", end.rank},
            {"code", end.exit.code},
            {"signal", end.exit.signal},
            {"known", end.exit.is_known}}}};
}

json body(const RankRefusal& refusal) {
  return {{"refusal", {{"rank", refusal.rank}, {"why", refusal.why}}}};
}

json body(const AgentHeartbeat&) { return {{"sign", true}}; }

AgentRun run_from(const json& message) {
  AgentRun run;
  message.at("threads").get_to(run.threads_per_device);
  message.at("variables").get_to(run.variables);
  for (const json& one : message.at("ranks")) {
    run.ranks.push_back({one.at("rank"), one.at("variables")});
  }
  return run;
}

std::optional<AgentOrder> order_from(const json& message) {
  if (message.contains("greeting")) {
    const json& greeting = message.at("greeting");
    return AgentGreeting{greeting.at("device"), greeting.at("directory")};
  }
  if (message.contains("run")) return run_from(message.at("run"));
  if (message.contains("signal")) return AgentSignal{message.at("signal")};
  return std::nullopt;
}

HostView host_from(const json& message) {
  HostView host;
  message.at("version").get_to(host.version);
  message.at("name").get_to(host.name);
  message.at("mark").get_to(host.mark);
  message.at("note").get_to(host.note);
  host.gpus = visible_gpus_from_json(message.at("gpus"));
  host.environment = environment_from(message.at("environment"));
  return host;
}

std::optional<AgentWord> word_from(const json& message) {
  if (message.contains("sign")) return AgentHeartbeat{};
  if (message.contains("host")) return host_from(message.at("host"));
  for (const bool is_error : {false, true}) {
    const char* const key = is_error ? "error" : "output";
    if (!message.contains(key)) continue;
    return RankLine{message.at(key).at("rank"), is_error, message.at(key).at("text")};
  }
  if (message.contains("end")) {
    const json& end = message.at("end");
    RankEnd result{.rank = end.at("rank"), .exit = {}};
    end.at("code").get_to(result.exit.code);
    end.at("signal").get_to(result.exit.signal);
    end.at("known").get_to(result.exit.is_known);
    return result;
  }
  if (message.contains("refusal")) {
    return RankRefusal{message.at("refusal").at("rank"), message.at("refusal").at("why")};
  }
  return std::nullopt;
}

template <typename Message, typename From>
std::optional<Message> read_message(const std::string& line, const From& from) {
  if (!line.starts_with('{')) return std::nullopt;
  try {
    const json message = json::parse(line);
    return message.is_object() ? from(message) : std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const ConfigError&) {  // an environment of another version
    return std::nullopt;
  }
}

}  // namespace

std::string order_line(const AgentOrder& order) {
  return line_of(std::visit([](const auto& one) { return body(one); }, order));
}

std::string word_line(const AgentWord& word) {
  return line_of(std::visit([](const auto& one) { return body(one); }, word));
}

std::optional<AgentOrder> read_order(const std::string& line) {
  return read_message<AgentOrder>(line, order_from);
}

std::optional<AgentWord> read_word(const std::string& line) {
  return read_message<AgentWord>(line, word_from);
}

}  // namespace ddpbench::bench
