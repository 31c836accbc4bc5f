// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of `ddpbench comm`, from the words of the command line to what is measured.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

// The options as typed, with the defaults.
struct CommWords {
  std::vector<std::string> operations = {"all_reduce"};
  std::string sizes = "4K..128M";
  std::vector<std::string> ranks;  // empty: 2, or all that a launcher started
  std::string device = "auto";
  std::string backend = "auto";
  std::string type = "fp32";
  std::string reduction = "sum";
  std::string mode = "process";
  std::vector<std::string> all_reduces = {"auto"};
  bool oversubscribe = false;  // more ranks than GPUs
  int iterations = 50;
  int warmup = 20;  // enough for WriteTuner to try non-temporal stores once
  double timeout_s = 300;
};

struct CommOptions {
  std::vector<std::string> operations;  // names of collective_cases()
  std::vector<std::uint64_t> sizes;     // bytes of the whole buffer, as asked for
  std::vector<int> ranks;
  std::string device = "cpu";    // resolved: cpu | cuda
  std::string device_note;       // why --device=auto was resolved so
  std::string backend = "auto";  // each world resolves it: it depends on shared GPUs
  std::vector<std::string> all_reduces = {"auto"};  // auto | ring | direct; one world each
  bool oversubscribe = false;
  DataType type = DataType::fp32;
  comm::ReduceOp reduction = comm::ReduceOp::sum;
  bool threads = false;  // ranks are threads of one process
  int iterations = 0, warmup = 0;
  double timeout_s = 300;  // 0: no limit
};

// `started`: what started the ranks, and how many; where nothing did, comm starts its own.
struct StartedRanks {
  std::string launcher;
  int count = 0;  // 0: nothing did
};

// "all" is one rank per core of `host`, or per GPU, or all that were started. Throws ConfigError
// that names option, value and what is allowed. Throws UnavailableError for a device that is
// missing or lacks the backend.
CommOptions resolve(const CommWords& words, const HostDevices& host,
                    const StartedRanks& started = {});

// Advice for more ranks than GPUs.
std::string advice_about_ranks(const CudaProbe& cuda);

// Reads "4K..128M" (each twice the one before), "4K..128M*4", "1K,1M", and mixtures. Sizes are
// bytes, with K, M or G for 2^10, 2^20 and 2^30. Throws ConfigError.
std::vector<std::uint64_t> parse_sizes(const std::string& text);

// Returns "sum", "average" or "max", as options and reports say it.
std::string reduction_word(comm::ReduceOp op);

// The options as the report's `config` shows them.
nlohmann::ordered_json to_json(const CommOptions& options);

}  // namespace ddpbench::bench
