// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommJob: what the processes of one world of `ddpbench comm` need to know. CommRankResult: what
// each of its ranks found besides the times. Those are in its channel: one step record per
// iteration, whose epoch is the number of the row. The job travels as JSON, the result as
// CBOR (RFC 8949).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/comm/comm_options.h"
#include "bench/plan/run_plan.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

// One line of the table.
struct CommRow {
  std::string operation;
  std::size_t count = 0;  // elements of the whole, rounded down (whole_count)
};

struct CommJob {
  int ranks = 2;
  int hosts = 1;  // that the ranks are on
  bool threads = false;
  DataType type = DataType::fp32;
  comm::ReduceOp reduction = comm::ReduceOp::sum;
  int iterations = 0, warmup = 0;
  double timeout_s = 0;
  std::vector<CommRow> rows;
  // The working sets for which the memory's bandwidth is measured, in bytes: of one core, or of a
  // GPU with all its ranks (exactly those of the rows). Empty: it is not measured.
  std::vector<std::size_t> working_sets;
  DevicePlan devices;                     // one per rank
  std::string asked_all_reduce = "auto";  // what ranks are told: auto | ring | direct
  std::string all_reduce;  // ring | direct, of many bytes; empty: the backend does not tell

  std::size_t bytes(const CommRow& row) const { return row.count * size_of(type); }
  std::size_t largest_bytes() const;
  bool on_gpus() const { return devices.is_on_gpu(0); }
  // Whether all ranks are on one GPU: its memory then bounds them.
  bool on_one_gpu() const;
  // The number of ranks that share the memory of this rank's device.
  int sharers(int rank) const;
  // Says why memory is no bound of this world; empty where it is one.
  std::string no_bound_reason() const;
};

// Throws ConfigError when a size has less than one element per rank, or when the machine or a GPU
// has too little memory. Throws UnavailableError for more ranks than GPUs without --oversubscribe,
// and for threads that would share a GPU through NCCL.
// `ranks_here`: so many of them share `host`; 0: all do.
CommJob make_comm_job(const CommOptions& options, int ranks, const HostDevices& host,
                      const std::string& all_reduce = "auto", int ranks_here = 0);
// Chooses working_sets anew. Call it after a change of the devices or the hosts.
void choose_working_sets(CommJob& job);
// Makes one world for each number of ranks and each algorithm of --all-reduce. The worlds of the
// algorithms after the first have rows of all-reduces only.
std::vector<CommJob> make_comm_jobs(const CommOptions& options, const HostDevices& host);

// "2 ranks (processes), gloo on cpu, ...", for people.
std::string title_of(const CommJob& job);
// What to tell the user where sizes are rounded down to a multiple of the type and of the ranks;
// else empty.
std::string rounding_note(const CommOptions& options, const CommJob& job);

// Makes room for each rank's iterations, also where ranks are threads of one process.
launch::ChannelLayout channel_layout(const CommJob& job);

nlohmann::json to_json(const CommJob& job);
CommJob comm_job_from_json(const nlohmann::json& json);

// Bandwidth, which counts bytes read and bytes written. For a core it is measured in memory of its
// own with the communicator's loops, for a GPU with device copies. A GPU has no figure for
// reducing.
struct BandwidthSample {
  std::size_t working_set_bytes = 0;
  bool all_cores = false;  // all ranks at once; else rank 0 alone
  double copy_gb_per_s = 0, reduce_gb_per_s = 0;
  std::string missing;  // why there is no figure; empty: there is one
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

}  // namespace ddpbench::bench
