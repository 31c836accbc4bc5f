// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_spec.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "bench/comm/collective_case.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/collective_metrics.h"

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommRow, operation, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DevicePlan, device, backend, threads_per_device, cores, gpus,
                                   oversubscribed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommSpec, ranks, threads, type, reduction, iterations, warmup,
                                   timeout_s, rows, working_sets, devices, all_reduce)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BandwidthSample, working_set_bytes, all_cores, copy_gb_per_s,
                                   reduce_gb_per_s, missing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommRankResult, host, model, all_reduce, bandwidth, wrong, late)

namespace {

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

double footprint(const CommSpec& spec, const CommRow& row) {
  const auto bytes = static_cast<double>(spec.bytes(row));
  return report::collective_traffic(row.operation, spec.ranks, bytes).footprint_bytes;
}

// Powers of two that span the bytes touched by one core in the rows.
std::vector<std::size_t> working_sets_of_cores(const CommSpec& spec) {
  std::size_t least = 0, most = 0;
  for (const CommRow& row : spec.rows) {
    if (row.count == 0) continue;
    const auto set = static_cast<std::size_t>(footprint(spec, row) / spec.ranks);
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

// The bytes that all ranks of a GPU touch in each row.
std::vector<std::size_t> working_sets_of_gpu(const CommSpec& spec) {
  std::set<std::size_t> sets;
  for (const CommRow& row : spec.rows) {
    if (row.count == 0) continue;
    sets.insert(static_cast<std::size_t>(footprint(spec, row)));
  }
  return {sets.begin(), sets.end()};
}

void check_memory(const CommSpec& spec, std::uint64_t ranks, std::uint64_t memory_bytes,
                  const std::string& whose) {
  const std::uint64_t needed = 2 * spec.largest_bytes() * ranks;
  if (memory_bytes == 0 || needed <= memory_bytes) return;
  throw ConfigError(fmt::format(
      "--sizes: {} bytes in {} ranks need {} bytes of memory{} (to send and to receive), but there "
      "are {}",
      spec.largest_bytes(), ranks, needed, whose, memory_bytes));
}

void place_on_cores(CommSpec& spec, const HostDevices& host) {
  const CpuPlacement placement = place_cpu_devices(host.cpu, spec.ranks, 1);
  spec.devices.cores = placement.device_cores;
  spec.devices.oversubscribed = placement.oversubscribed;
}

void place_on_gpus(CommSpec& spec, const CommOptions& options, const CudaProbe& cuda) {
  refuse_missing_gpus(cuda, "--ranks", spec.ranks, options.oversubscribe, advice_about_ranks(cuda));
  spec.devices.gpus = next_gpus(cuda, spec.ranks);
  spec.devices.oversubscribed = spec.ranks > static_cast<int>(cuda.devices.size());
  for (const CudaDeviceInfo& gpu : cuda.devices) {
    const auto ranks = std::ranges::count(spec.devices.gpus, gpu.ordinal);
    check_memory(spec, static_cast<std::uint64_t>(ranks), gpu.memory_bytes,
                 fmt::format(" of GPU {}", gpu.ordinal));
  }
}

}  // namespace

std::size_t CommSpec::largest_bytes() const {
  std::size_t largest = 0;
  for (const CommRow& row : rows) largest = std::max(largest, bytes(row));
  return largest;
}

bool CommSpec::on_one_gpu() const {
  return on_gpus() && std::ranges::count(devices.gpus, devices.gpus.front()) == ranks;
}

int CommSpec::sharers(int rank) const {
  if (!on_gpus()) return 1;
  const int gpu = devices.gpus.at(static_cast<std::size_t>(rank));
  return static_cast<int>(std::ranges::count(devices.gpus, gpu));
}

std::string CommSpec::no_bound_reason() const {
  if (!on_gpus()) return devices.oversubscribed ? "oversubscribed: more ranks than cores" : "";
  if (!on_one_gpu()) return "ranks on several GPUs, bound by links that are not measured";
  if (!comm_backend(devices.backend).shares_devices) {
    return fmt::format("{} connects ranks that share a GPU through the host", devices.backend);
  }
  return "";
}

std::vector<CommSpec> make_comm_specs(const CommOptions& options, const HostDevices& host) {
  std::vector<CommSpec> specs;
  CommOptions all_reduces = options;
  all_reduces.operations = {"all_reduce"};
  const bool measured =
      std::ranges::find(options.operations, "all_reduce") != options.operations.end();
  for (const int ranks : options.ranks) {
    for (const std::string& algorithm : options.all_reduces) {
      const bool first = algorithm == options.all_reduces.front();
      if (!first && !measured) continue;
      specs.push_back(make_comm_spec(first ? options : all_reduces, ranks, host, algorithm));
    }
  }
  return specs;
}

CommSpec make_comm_spec(const CommOptions& options, int ranks, const HostDevices& host,
                        const std::string& all_reduce) {
  CommSpec spec;
  spec.ranks = ranks;
  spec.threads = options.threads;
  spec.type = options.type;
  spec.reduction = options.reduction;
  spec.iterations = options.iterations;
  spec.warmup = options.warmup;
  spec.timeout_s = options.timeout_s;
  spec.rows = make_rows(options, ranks);
  spec.devices.device = options.device;
  place_on_cores(spec, host);
  if (options.device == "cuda") {
    place_on_gpus(spec, options, host.cuda);
  } else {
    check_memory(spec, static_cast<std::uint64_t>(ranks), host.cpu.memory_bytes, "");
  }
  spec.devices.backend =
      choose_backend(options.backend, options.device, spec.devices.oversubscribed);
  spec.all_reduce = all_reduce_name(comm_backend(spec.devices.backend), all_reduce, ranks);
  if (spec.threads) {
    refuse_sharing_threads("--mode=thread", spec.devices.backend,
                           spec.on_gpus() && spec.devices.oversubscribed);
  }
  if (spec.no_bound_reason().empty()) {
    spec.working_sets = spec.on_gpus() ? working_sets_of_gpu(spec) : working_sets_of_cores(spec);
  }
  return spec;
}

launch::ChannelLayout channel_layout(const CommSpec& spec) {
  launch::ChannelLayout layout;
  layout.ranks = spec.ranks;
  layout.step_capacity = spec.rows.size() * static_cast<std::size_t>(spec.iterations);
  constexpr std::size_t kPerEntry = 256;  // bytes, generously
  layout.result_capacity = (64 + spec.rows.size() + 2 * spec.working_sets.size()) * kPerEntry;
  return layout;
}

nlohmann::json to_json(const CommSpec& spec) {
  nlohmann::json json;
  to_json(json, spec);
  return json;
}

CommSpec comm_spec_from_json(const nlohmann::json& json) { return json.get<CommSpec>(); }

std::string encoded(const CommRankResult& result) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(result), bytes);
  return bytes;
}

CommRankResult decoded_comm_rank_result(const std::string& bytes) {
  if (bytes.empty()) return {};
  return nlohmann::json::from_cbor(bytes).get<CommRankResult>();
}

}  // namespace ddpbench::bench
