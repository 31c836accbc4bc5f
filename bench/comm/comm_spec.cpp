// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_spec.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "bench/comm/collective_case.h"
#include "kernels/runtime/error.h"
#include "reports/collectives/collective_metrics.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kJob = "comm";

std::vector<CommRow> make_rows(const CommOptions& options, int ranks) {
  std::vector<CommRow> rows;
  for (const std::string& operation : options.operations) {
    const CollectiveCase& collective = *find_collective(operation);
    if (!collective.moves_data()) {
      rows.push_back({operation, 0});
      continue;
    }
    for (const std::uint64_t bytes : options.sizes) {
      const std::size_t count = whole_count(collective, bytes, options.type, ranks);
      if (count == 0) {
        throw ConfigError(
            fmt::format("--sizes: {} bytes are less than one {} for each of {} ranks "
                        "({})",
                        bytes, to_string(options.type), ranks, operation));
      }
      rows.push_back({operation, count});
    }
  }
  return rows;
}

// Powers of two around what a core touches in the rows.
std::vector<std::size_t> working_sets(const CommSpec& spec) {
  std::size_t least = 0, most = 0;
  for (const CommRow& row : spec.rows) {
    if (row.count == 0) continue;
    const auto bytes = static_cast<double>(spec.bytes(row));
    const auto set = static_cast<std::size_t>(
        report::collective_traffic(row.operation, spec.ranks, bytes).footprint_bytes / spec.ranks);
    least = least == 0 ? set : std::min(least, set);
    most = std::max(most, set);
  }
  constexpr std::size_t kLeast = 1 << 10;
  std::vector<std::size_t> sets;
  if (most == 0) return sets;
  for (std::size_t set = std::bit_floor(std::max(least, kLeast)); set <= std::max(most, kLeast);
       set *= 2) {
    sets.push_back(set);
  }
  return sets;
}

DataType data_type_from(const std::string& name) {
  for (const DataType type : {DataType::fp32, DataType::fp64, DataType::bf16, DataType::fp16,
                              DataType::int32, DataType::int64, DataType::uint8}) {
    if (to_string(type) == name) return type;
  }
  throw InternalError(fmt::format("a rank was handed the data type '{}'", name));
}

}  // namespace

std::size_t CommSpec::largest_bytes() const {
  std::size_t largest = 0;
  for (const CommRow& row : rows) largest = std::max(largest, bytes(row));
  return largest;
}

CommSpec make_comm_spec(const CommOptions& options, int ranks, const CpuTopology& topology) {
  CommSpec spec;
  spec.ranks = ranks;
  spec.threads = options.threads;
  spec.type = options.type;
  spec.reduction = options.reduction;
  spec.iterations = options.iterations;
  spec.warmup = options.warmup;
  spec.timeout_s = options.timeout_s;
  spec.rows = make_rows(options, ranks);
  const std::size_t needed = 2 * spec.largest_bytes() * static_cast<std::size_t>(ranks);
  if (topology.memory_bytes > 0 && needed > topology.memory_bytes) {
    throw ConfigError(
        fmt::format("--sizes: {} bytes in {} ranks need {} bytes of memory (to send "
                    "and to receive), but there are {}",
                    spec.largest_bytes(), ranks, needed, topology.memory_bytes));
  }
  const CpuPlacement placement = place_cpu_devices(topology, ranks, 1);
  spec.cores = placement.device_cores;
  spec.oversubscribed = placement.oversubscribed;
  if (!spec.oversubscribed) spec.working_sets = working_sets(spec);
  return spec;
}

launch::ChannelLayout channel_layout(const CommSpec& spec) {
  launch::ChannelLayout layout;
  layout.ranks = spec.ranks;
  layout.step_capacity = spec.rows.size() * static_cast<std::size_t>(spec.iterations);
  constexpr std::size_t kPerEntry = 256;  // of JSON text, generously
  layout.result_capacity = (64 + spec.rows.size() + 2 * spec.working_sets.size()) * kPerEntry;
  return layout;
}

nlohmann::json to_json(const CommSpec& spec) {
  nlohmann::json rows = nlohmann::json::array();
  for (const CommRow& row : spec.rows)
    rows.push_back({{"op", row.operation}, {"count", row.count}});
  return {{"job", kJob},
          {"ranks", spec.ranks},
          {"threads", spec.threads},
          {"type", to_string(spec.type)},
          {"reduction", static_cast<int>(spec.reduction)},
          {"iterations", spec.iterations},
          {"warmup", spec.warmup},
          {"timeout_s", spec.timeout_s},
          {"rows", std::move(rows)},
          {"working_sets", spec.working_sets},
          {"cores", spec.cores},
          {"oversubscribed", spec.oversubscribed},
          {"channel_fd", spec.channel_fd}};
}

bool is_comm_spec(const nlohmann::json& json) { return json.value("job", "") == kJob; }

CommSpec comm_spec_from_json(const nlohmann::json& json) {
  CommSpec spec;
  json.at("ranks").get_to(spec.ranks);
  json.at("threads").get_to(spec.threads);
  spec.type = data_type_from(json.at("type"));
  spec.reduction = static_cast<comm::ReduceOp>(json.at("reduction").get<int>());
  json.at("iterations").get_to(spec.iterations);
  json.at("warmup").get_to(spec.warmup);
  json.at("timeout_s").get_to(spec.timeout_s);
  for (const auto& row : json.at("rows")) spec.rows.push_back({row.at("op"), row.at("count")});
  json.at("working_sets").get_to(spec.working_sets);
  json.at("cores").get_to(spec.cores);
  json.at("oversubscribed").get_to(spec.oversubscribed);
  json.at("channel_fd").get_to(spec.channel_fd);
  return spec;
}

std::string to_json_text(const CommRankResult& result) {
  nlohmann::json bandwidth = nlohmann::json::array();
  for (const BandwidthSample& sample : result.bandwidth) {
    bandwidth.push_back({{"working_set_bytes", sample.working_set_bytes},
                         {"all_cores", sample.all_cores},
                         {"copy", sample.copy_gb_per_s},
                         {"reduce", sample.reduce_gb_per_s}});
  }
  return nlohmann::json{{"host", result.host},
                        {"model", result.model},
                        {"bandwidth", std::move(bandwidth)},
                        {"wrong", result.wrong}}
      .dump();
}

CommRankResult comm_rank_result_from_text(const std::string& text) {
  CommRankResult result;
  if (text.empty()) return result;
  const auto json = nlohmann::json::parse(text);
  json.at("host").get_to(result.host);
  json.at("model").get_to(result.model);
  for (const auto& sample : json.at("bandwidth")) {
    result.bandwidth.push_back({sample.at("working_set_bytes"), sample.at("all_cores"),
                                sample.at("copy"), sample.at("reduce")});
  }
  json.at("wrong").get_to(result.wrong);
  return result;
}

}  // namespace ddpbench::bench
