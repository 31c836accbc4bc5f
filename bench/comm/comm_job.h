// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench comm`, from the options to what the processes of one world need to know (CommJob), and
// what each rank found besides the times (CommRankResult). Those are in its channel: one step
// record per iteration, whose epoch is the number of the row. The job travels as JSON, the result
// as CBOR (RFC 8949). And the command, which makes rows of the report from what the ranks left.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/options/options.h"
#include "bench/plan/run_plan.h"
#include "bench/run/launch_run.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Resolves --device on `host`, and --ranks into numbers that each stand once; returns why
// --device=auto was resolved so. "all" is one rank per core of `host`, or per GPU, or all that
// `hosts`, if not null, have room for. Throws ConfigError that names option, value and what is
// allowed. Throws UnavailableError for a device that is missing or lacks the backend.
std::string resolve_comm(Options& options, const HostDevices& host,
                         const RunHosts* hosts = nullptr);

// Reads bytes as "4K..128M" (each twice the one before), "4K..128M*4", "1K,1M", and mixtures.
// Throws ConfigError.
std::vector<std::uint64_t> parse_sizes(const std::string& text);

nlohmann::ordered_json comm_config(const Options& options);  // of the report

// One line of the table.
struct CommRow {
  std::string operation;
  std::size_t count = 0;  // elements of the whole, rounded down (whole_count)
};

inline constexpr const char* kCommKind = "comm";

struct CommJob {
  int ranks = 2;
  int hosts = 1;          // that the ranks are on
  std::string interface;  // between them (--interface); empty: any
  bool threads = false;   // ranks are threads of one process
  DataType type = DataType::fp32;
  comm::ReduceOp reduction = comm::ReduceOp::sum;
  int iterations = 0, warmup = 0;
  double timeout_s = 0;  // 0: no limit
  std::vector<CommRow> rows;
  // The working sets of one core for which the memory's bandwidth is measured, in bytes. Empty: it
  // is not measured.
  std::vector<std::size_t> working_sets;
  DevicePlan devices;                     // one per rank
  std::string asked_all_reduce = "auto";  // what ranks are told: auto | ring | direct
  std::string emulated_link;              // empty: none
  std::string all_reduce;  // ring | direct, of many bytes; empty: the backend does not tell

  std::size_t bytes(const CommRow& row) const { return row.count * size_of(type); }
  std::size_t largest_bytes() const;
  bool on_gpus() const { return devices.is_on_gpu(0); }
  // The number of ranks that share the memory of this rank's device.
  int sharers(int rank) const;
  // Says why memory is no bound of this world; empty where it is one.
  std::string no_bound_reason() const;
};

// `options`: resolved, but for --backend=auto: it depends on shared GPUs. Throws ConfigError when a
// size has less than one element per rank, when the type cannot hold the sums, or when the machine
// or a GPU has too little memory. Throws UnavailableError for more ranks than GPUs without
// --oversubscribe, and for threads that would share a GPU through NCCL.
CommJob make_comm_job(const Options& options, int ranks, const HostDevices& host,
                      const std::string& all_reduce = "auto");
// Chooses working_sets anew. Call it after a change of the devices or the hosts.
void choose_working_sets(CommJob& job);
// Makes one world for each number of ranks and each algorithm of --all-reduce. The worlds of the
// algorithms after the first have rows of all-reduces only. `hosts`: where the ranks are; null:
// here.
std::vector<CommJob> make_comm_jobs(const Options& options, const HostDevices& host,
                                    const RunHosts* hosts = nullptr);
HostJob host_job(const CommJob& job);

// What to say of a world before it is measured: "2 ranks (processes), gloo on cpu, ...".
std::string title_of(const CommJob& job);

launch::ChannelLayout channel_layout(const CommJob& job);

nlohmann::json to_json(const CommJob& job);
CommJob comm_job_from_json(const nlohmann::json& json);

// Bandwidth, which counts bytes read and bytes written.
struct BandwidthSample {
  std::size_t working_set_bytes = 0;
  bool all_cores = false;  // all ranks at once; else rank 0 alone
  double copy_gb_per_s = 0, reduce_gb_per_s = 0;
};

struct CommRankResult {
  std::string host, model;
  std::string all_reduce;  // the algorithms that ran, "ring,direct" for both; empty: not told
  std::vector<BandwidthSample> bandwidth;
  std::vector<std::uint64_t> wrong;  // [row], when it is done: elements
  std::vector<std::int64_t> late;    // [row], when it is done: iterations that waited for the host
};

std::string encoded(const CommRankResult& result);
// Empty bytes give an empty result.
CommRankResult decoded_comm_rank_result(const std::string& bytes);

// The supervisor (comm_session.cpp), which opens no device.

// The exit code where results are wrong: as for a failed verification of a training run.
inline constexpr int kWrongResultExitCode = 5;

// Appends the rows and the bandwidth that was measured. An interrupted run has the rows that were
// begun; a failed run has all rows, with the reason where figures are missing. Returns the status
// of this part; sets `error` when it failed.
report::Status collect_comm(const CommJob& job, const launch::RankChannels& channels,
                            const launch::SuperviseResult& result, report::Report& report,
                            std::optional<report::ErrorInfo>& error);

// Measures all worlds; returns the exit code. Prints progress, table and the report's path. Before
// it starts anything, it throws ConfigError for options that cannot work and UnavailableError for
// what this host lacks.
// `hosts`: where the ranks are; null: here.
int run_comm(Options options, std::vector<std::string> arguments, RunHosts* hosts = nullptr);

}  // namespace ddpbench::bench
