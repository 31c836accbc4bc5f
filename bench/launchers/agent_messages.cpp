// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_messages.h"

#include <boost/beast/core/detail/base64.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json_members.h"
#include "bench/host/build_info.h"
#include "bench/plan/training_job.h"
#include "bench/run/report_output.h"
#include "reports/json/report_json.h"

namespace ddpbench::launch {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChildExit, code, signal, is_known)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ChannelLayout, ranks, step_capacity, bucket_capacity,
                                   replica_capacity, trace_capacity, result_capacity)
}  // namespace ddpbench::launch

namespace ddpbench {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CudaDeviceInfo, ordinal, name, uuid, pci_bus_id,
                                   compute_capability, multiprocessors, memory_bytes, l2_bytes,
                                   numa_node)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CudaProbe, devices, driver_version, runtime_version, reason)
}  // namespace ddpbench

namespace ddpbench::report {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MachineSnapshot, wall_s, busy_s, stolen_s, all_s, own_busy_s,
                                   own_major_page_faults, own_involuntary_switches,
                                   quota_throttled_s, cpu_frequency_mhz, swapped_in_pages,
                                   thermal_throttles)

// The environment travels as that of a report without runs, which has a reader.
static void to_json(nlohmann::json& message, const Environment& environment) {
  Report report;
  report.generator = bench::generator();
  report.environment = environment;
  report.started_at = report.finished_at = bench::utc_timestamp();
  report.config_json = "{}";
  message = report_text(report);
}

static void from_json(const nlohmann::json& message, Environment& environment) {
  environment = parse_report(message, "the message of an agent").environment;
}
}  // namespace ddpbench::report

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentGreeting, device, directory, secret)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentInputs, settings, decoded, writes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentStore, host, interface, port, nonce)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentRun::Process, number, devices, places, gpu_places,
                                   variables)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReferenceWeights::Extent, parameters, tensors, steps, slices,
                                   state_values, state_tensors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentRun, kind, job, plan, devices_here, cores, layout,
                                   variables, nonce, processes, reference, extent, reference_handle)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentSignal, process, number)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentHello, version)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostView, name, mark, cores, gpus, environment, note, rank,
                                   world_size, arguments)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostInputs, dataset, contents, decoded)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostStore, address, port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostLoad, snapshot)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentEnd, exit_code, message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReferencePlace, handle)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentTold, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankLine, rank, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankEnd, rank, exit, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentRefusal, rank, why, exit_code)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentHeartbeat, clock_s, stopped)

static void to_json(nlohmann::json& message, const AgentLook&) { message = nullptr; }
static void from_json(const nlohmann::json&, AgentLook&) {}

namespace base64 = boost::beast::detail::base64;

static void to_json(nlohmann::json& message, const RankNews& records) {
  std::string text(base64::encoded_size(records.bytes.size()), '\0');
  text.resize(base64::encode(text.data(), records.bytes.data(), records.bytes.size()));
  message = {{"rank", records.rank}, {"bytes", std::move(text)}};
}

static void from_json(const nlohmann::json& message, RankNews& records) {
  message.at("rank").get_to(records.rank);
  const auto& text = message.at("bytes").get_ref<const std::string&>();
  records.bytes.resize(base64::decoded_size(text.size()));
  records.bytes.resize(base64::decode(records.bytes.data(), text.data(), text.size()).first);
}

namespace {

// An object with the number of the alternative and its members.
template <typename Message>
std::string line_of(const Message& message) {
  nlohmann::json body = std::visit([](const auto& one) { return nlohmann::json(one); }, message);
  const nlohmann::json line = {{"kind", message.index()}, {"body", std::move(body)}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

template <typename Message>
std::optional<Message> message_of(const std::string& line) {
  if (!line.starts_with('{')) return std::nullopt;
  try {
    const nlohmann::json message = nlohmann::json::parse(line);
    const auto kind = message.at("kind").get<std::size_t>();
    std::optional<Message> found;
    const auto read = [&]<std::size_t i>() {
      using One = std::variant_alternative_t<i, Message>;
      if (i == kind) found = message.at("body").get<One>();
    };
    [&]<std::size_t... i>(std::index_sequence<i...>) { (read.template operator()<i>(), ...); }
    (std::make_index_sequence<std::variant_size_v<Message>>());
    return found;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const ConfigError&) {  // an environment that is none
    return std::nullopt;
  }
}

}  // namespace

std::string order_line(const AgentOrder& order) { return line_of(order); }
std::string word_line(const AgentWord& word) { return line_of(word); }
std::optional<AgentOrder> read_order(const std::string& line) {
  return message_of<AgentOrder>(line);
}
std::optional<AgentWord> read_word(const std::string& line) { return message_of<AgentWord>(line); }

}  // namespace ddpbench::bench
