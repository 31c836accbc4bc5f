// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The matrix of a sweep: which cells the lists in options make. Pure; the order and the number of
// repetitions are SweepSchedule's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// One cell of the comparison: one value of every option that may list several. A run and its ranks
// have these values from here alone.
struct RunCell {
  std::string strategy;  // "reference" for the run that others are verified against
  int world_size = 1;    // training replicas
  int servers = 0;
  int repetition = 0;
  std::int64_t batch_size = kDefaultBatchSize;  // of a device, unless there is a global one
  std::int64_t global_batch_size = 0;           // of all devices (strong scaling); 0: there is none
  // Where the strategy does not heed one of these, the first of the option's list.
  bool overlap = true;
  double bucket_cap_mb = 25, first_bucket_mb = 1;  // MiB
  std::string ps_update = "server";
  std::string all_reduce = "auto";  // auto | ring | direct
  std::string cuda_graph = "auto";  // auto | on | off

  bool is_strong() const { return global_batch_size > 0; }
  bool operator==(const RunCell&) const = default;
};

// One option that may list several values. The table below is all that a sweep knows of them.
struct SweepAxis {
  const char* option;   // "batch-size"
  const char* setting;  // in titles (report::value_words); empty: the name of the run says it
  std::size_t (*listed)(const Options&);                      // how many values the option has
  void (*take)(RunCell&, const Options&, std::size_t index);  // takes one of them
  // Whether the strategy of the cell, on so many devices, does something with the value.
  bool (*heeded)(const RunCell&);
  // Sets the value of a cell that does not heed the option, which has at least one.
  void (*ignore)(RunCell&, const Options&);
  std::string (*text)(const RunCell&);  // the value
  void (*write)(const RunCell&, nlohmann::json&);
  void (*read)(RunCell&, const nlohmann::json&);
};
// In the order in which they multiply: cells differ fastest in the last one.
std::span<const SweepAxis> sweep_axes();

// Every strategy with every device count and batch size, and with what else it heeds: ddp on more
// than one device overlap, bucket sizes and algorithms, ps overlap, servers and update, single and
// ddp CUDA graphs. Other dimensions do not multiply a strategy's cells; `single` runs on one
// device, whatever --gpus lists, and comes first, because it is the baseline. Repetitions are 0.
// --gpus=all that is not counted yet is one count.
std::vector<RunCell> plan_matrix(const Options& options);

// Throws ConfigError when --save-model is given and the options make several runs, whose weights
// would overwrite each other.
void check_saving(const Options& options);

// The options that hold lists here, as flags: "--gpus", "--batch-size", ...
std::vector<std::string> listed_options(const Options& options);

// "ddp on 2 devices, batch 32, overlap off", for people: what the lists of `options` vary is named.
// The repetition (from 1) too, when there may be several.
std::string run_title(const RunCell& cell, const Options& options);

// The cell as a rank is told of it, and back. The repetition stays with the supervisor.
nlohmann::json to_json(const RunCell& cell);
RunCell run_cell_from_json(const nlohmann::json& json);

// A world that an external launcher started makes one run. Throws ConfigError, naming them, when
// options ask for more.
void refuse_lists(const Options& options);

// The run of a world of `processes` that an external launcher started. `devices`: how many a
// process finds. Throws ConfigError when strategy, --gpus or --servers want another world.
RunCell joined_cell(const Options& options, int processes, int devices);

// How many of the processes are servers on CPU devices, whatever kind the workers' devices are.
int cpu_servers(const Options& options);

}  // namespace ddpbench::bench
