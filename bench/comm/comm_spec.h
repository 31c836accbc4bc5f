// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommSpec: what the processes of one world of `ddpbench comm` need to know; and CommRankResult,
// what each of its ranks found besides the times (those are in its channel, a step record an
// iteration, whose epoch is the number of the row). The specification travels as JSON, the
// result as CBOR (RFC 8949).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/comm/comm_options.h"
#include "bench/plan/device_plan.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

// One line of the table.
struct CommRow {
  std::string operation;
  std::size_t count = 0;  // elements of the whole, rounded down (whole_count)
};

struct CommSpec {
  int ranks = 2;
  bool threads = false;
  DataType type = DataType::fp32;
  comm::ReduceOp reduction = comm::ReduceOp::sum;
  int iterations = 0, warmup = 0;
  double timeout_s = 0;
  std::vector<CommRow> rows;
  // Bytes that a core works on, or a GPU for all its ranks (exactly those of each row), for which
  // the memory's bandwidth is measured; empty: it is not.
  std::vector<std::size_t> working_sets;
  DevicePlan devices;      // one a rank
  std::string all_reduce;  // ring | direct; empty: the backend does not tell

  std::size_t bytes(const CommRow& row) const { return row.count * size_of(type); }
  std::size_t largest_bytes() const;
  bool on_gpus() const { return devices.is_on_gpu(0); }
  // All ranks are on one, whose memory then bounds them.
  bool on_one_gpu() const;
  // Ranks whose memory is that of this rank's device.
  int sharers(int rank) const;
  // Why memory is no bound of this world; empty where it is one.
  std::string no_bound_reason() const;
};

// Throws ConfigError when a size has no element a rank, or the machine or a GPU has not the memory;
// UnavailableError for more ranks than GPUs without --oversubscribe, and for threads that would
// share a GPU through NCCL.
CommSpec make_comm_spec(const CommOptions& options, int ranks, const HostDevices& host,
                        const std::string& all_reduce = "auto");
// One world for each number of ranks and each algorithm of --all-reduce; those of the algorithms
// after the first have rows of all-reduces only.
std::vector<CommSpec> make_comm_specs(const CommOptions& options, const HostDevices& host);

// Room for every rank's iterations, also where ranks are threads of one process.
launch::ChannelLayout channel_layout(const CommSpec& spec);

nlohmann::json to_json(const CommSpec& spec);
CommSpec comm_spec_from_json(const nlohmann::json& json);

// Bandwidth of one core's own memory: bytes read and written, by the loops of the communicator. Or
// of a GPU's, by its own copies; nothing is reduced there.
struct BandwidthSample {
  std::size_t working_set_bytes = 0;
  bool all_cores = false;  // all ranks at once, or rank 0 alone
  double copy_gb_per_s = 0, reduce_gb_per_s = 0;
  std::string missing;  // why there is none; empty: there is
};

struct CommRankResult {
  std::string host, model;
  std::string all_reduce;  // what ran, as in CommSpec, or both; empty: not told
  std::vector<BandwidthSample> bandwidth;
  std::vector<std::uint64_t> wrong;  // [row] that is done: elements
  std::vector<std::int64_t> late;    // [row] that is done: iterations that waited for the host
};

std::string encoded(const CommRankResult& result);
// No bytes give an empty result.
CommRankResult decoded_comm_rank_result(const std::string& bytes);

}  // namespace ddpbench::bench
