// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_job.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_members.h"
#include "base/text.h"
#include "bench/comm/collective_case.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/collective_metrics.h"

namespace ddpbench::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommRow, operation, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DevicePlan, device, backend, threads_per_device, cores, gpus,
                                   oversubscribed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommJob, ranks, hosts, threads, type, reduction, iterations,
                                   warmup, timeout_s, rows, working_sets, devices, asked_all_reduce,
                                   all_reduce)
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

double footprint(const CommJob& job, const CommRow& row) {
  const auto bytes = static_cast<double>(job.bytes(row));
  return report::collective_traffic(row.operation, job.ranks, bytes).footprint_bytes;
}

// Powers of two that span the bytes touched by one core in the rows.
std::vector<std::size_t> working_sets_of_cores(const CommJob& job) {
  std::size_t least = 0, most = 0;
  for (const CommRow& row : job.rows) {
    if (row.count == 0) continue;
    const auto set = static_cast<std::size_t>(footprint(job, row) / job.ranks);
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
std::vector<std::size_t> working_sets_of_gpu(const CommJob& job) {
  std::set<std::size_t> sets;
  for (const CommRow& row : job.rows) {
    if (row.count == 0) continue;
    sets.insert(static_cast<std::size_t>(footprint(job, row)));
  }
  return {sets.begin(), sets.end()};
}

void check_memory(const CommJob& job, std::uint64_t ranks, std::uint64_t memory_bytes,
                  const std::string& whose) {
  const std::uint64_t needed = 2 * job.largest_bytes() * ranks;
  if (memory_bytes == 0 || needed <= memory_bytes) return;
  throw ConfigError(fmt::format(
      "--sizes: {} bytes in {} ranks need {} bytes of memory{} (to send and to receive), but there "
      "are {}",
      job.largest_bytes(), ranks, needed, whose, memory_bytes));
}

void place_on_cores(CommJob& job, const HostDevices& host) {
  const CpuPlacement placement = place_cpu_devices(host.cpu, job.ranks, 1);
  job.devices.cores = placement.device_cores;
  job.devices.oversubscribed = placement.oversubscribed;
}

void place_on_gpus(CommJob& job, const CommOptions& options, const CudaProbe& cuda) {
  refuse_missing_gpus(cuda, "--ranks", job.ranks, options.oversubscribe, advice_about_ranks(cuda));
  job.devices.gpus = next_gpus(cuda, job.ranks);
  job.devices.oversubscribed = job.ranks > static_cast<int>(cuda.devices.size());
  for (const CudaDeviceInfo& gpu : cuda.devices) {
    const auto ranks = std::ranges::count(job.devices.gpus, gpu.ordinal);
    check_memory(job, static_cast<std::uint64_t>(ranks), gpu.memory_bytes,
                 fmt::format(" of GPU {}", gpu.ordinal));
  }
}

}  // namespace

std::size_t CommJob::largest_bytes() const {
  std::size_t largest = 0;
  for (const CommRow& row : rows) largest = std::max(largest, bytes(row));
  return largest;
}

bool CommJob::on_one_gpu() const {
  return on_gpus() && std::ranges::count(devices.gpus, devices.gpus.front()) == ranks;
}

int CommJob::sharers(int rank) const {
  if (!on_gpus()) return 1;
  const int gpu = devices.gpus.at(static_cast<std::size_t>(rank));
  return static_cast<int>(std::ranges::count(devices.gpus, gpu));
}

std::string CommJob::no_bound_reason() const {
  if (hosts > 1) return "ranks on several hosts, bound by a network that is not measured";
  if (!on_gpus()) return devices.oversubscribed ? "oversubscribed: more ranks than cores" : "";
  if (!on_one_gpu()) return "ranks on several GPUs, bound by links that are not measured";
  const CommBackend& backend = comm_backend(devices.backend);
  if (!backend.shares_devices || is_staged(backend, DeviceKind::cuda)) {
    return fmt::format("{} connects ranks that share a GPU through the host", devices.backend);
  }
  return "";
}

std::vector<CommJob> make_comm_jobs(const CommOptions& options, const HostDevices& host) {
  std::vector<CommJob> jobs;
  CommOptions all_reduces = options;
  all_reduces.operations = {"all_reduce"};
  const bool measured =
      std::ranges::find(options.operations, "all_reduce") != options.operations.end();
  for (const int ranks : options.ranks) {
    for (const std::string& algorithm : options.all_reduces) {
      const bool first = algorithm == options.all_reduces.front();
      if (!first && !measured) continue;
      jobs.push_back(make_comm_job(first ? options : all_reduces, ranks, host, algorithm));
    }
  }
  return jobs;
}

CommJob make_comm_job(const CommOptions& options, int ranks, const HostDevices& host,
                      const std::string& all_reduce, int ranks_here) {
  CommJob job;
  job.ranks = ranks;
  job.threads = options.threads;
  job.type = options.type;
  job.reduction = options.reduction;
  job.iterations = options.iterations;
  job.warmup = options.warmup;
  job.timeout_s = options.timeout_s;
  job.rows = make_rows(options, ranks);
  job.devices.device = options.device;
  place_on_cores(job, host);
  if (options.device == "cuda") {
    place_on_gpus(job, options, host.cuda);
  } else {
    check_memory(job, static_cast<std::uint64_t>(ranks_here > 0 ? ranks_here : ranks),
                 host.available_bytes > 0 ? host.available_bytes : host.cpu.memory_bytes, "");
  }
  job.devices.backend = choose_backend(options.backend, options.device, job.devices.oversubscribed);
  job.asked_all_reduce = all_reduce;
  job.all_reduce = all_reduce_name(comm_backend(job.devices.backend), all_reduce, ranks);
  if (job.threads) {
    refuse_staging_threads("--mode=thread", job.devices.backend, options.device);
    refuse_sharing_threads("--mode=thread", job.devices.backend,
                           job.on_gpus() && job.devices.oversubscribed);
  }
  choose_working_sets(job);
  return job;
}

void choose_working_sets(CommJob& job) {
  job.working_sets.clear();
  if (!job.no_bound_reason().empty()) return;
  job.working_sets = job.on_gpus() ? working_sets_of_gpu(job) : working_sets_of_cores(job);
}

std::string title_of(const CommJob& job) {
  return fmt::format("{} ({}), {} on {}{}{}, {}, {}{}", counted(job.ranks, "rank"),
                     job.threads ? "threads" : "processes", job.devices.backend, job.devices.device,
                     job.all_reduce.empty() ? "" : ", all-reduce ", job.all_reduce,
                     to_string(job.type), counted(job.rows.size(), "row"),
                     job.devices.oversubscribed ? ", oversubscribed" : "");
}

std::string rounding_note(const CommOptions& options, const CommJob& job) {
  for (const CommRow& row : job.rows) {
    if (row.count == 0) continue;
    const bool asked = std::ranges::find(options.sizes, job.bytes(row)) != options.sizes.end();
    if (asked) continue;
    return fmt::format(
        "sizes are rounded down to whole elements ({}), the same number for each rank",
        to_string(job.type));
  }
  return "";
}

launch::ChannelLayout channel_layout(const CommJob& job) {
  launch::ChannelLayout layout;
  layout.ranks = job.ranks;
  layout.step_capacity = job.rows.size() * static_cast<std::size_t>(job.iterations);
  constexpr std::size_t kPerEntry = 256;  // bytes, generously
  layout.result_capacity = (64 + job.rows.size() + 2 * job.working_sets.size()) * kPerEntry;
  return layout;
}

nlohmann::json to_json(const CommJob& job) {
  nlohmann::json json;
  to_json(json, job);
  return json;
}

CommJob comm_job_from_json(const nlohmann::json& json) { return json.get<CommJob>(); }

std::string encoded(const CommRankResult& result) { return result_bytes(result); }

CommRankResult decoded_comm_rank_result(const std::string& bytes) {
  return result_of_bytes<CommRankResult>(bytes);
}

}  // namespace ddpbench::bench
