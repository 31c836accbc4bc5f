// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The matrix of a sweep: which cells the lists in options make. Pure; the order and the number of
// repetitions are SweepSchedule's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// One cell of the comparison: one value of everything that may be a list.
struct RunCell {
  std::string strategy;  // "reference" for the run that others are verified against
  int world_size = 1;    // training replicas
  int servers = 0;
  int repetition = 0;
  std::int64_t batch_size = kDefaultBatchSize;  // of a device, or of all when scaling is strong
  // Where the strategy does not heed one of these, the first of the option's list.
  bool overlap = true;
  double bucket_cap_mb = 25, first_bucket_mb = 1;  // MiB
  std::string ps_update = "server";
  std::string cuda_graph = "auto";  // auto | on | off
};

// Every strategy with every device count and batch size, and with what else it heeds: ddp on more
// than one device overlap and bucket sizes, ps overlap, servers and update, single and ddp CUDA
// graphs. Other dimensions do not multiply a strategy's cells; `single` runs on one device,
// whatever --gpus lists, and comes first, because it is the baseline. Repetitions are 0. --gpus=all
// that is not counted yet is one count.
std::vector<RunCell> plan_matrix(const Options& options);

// `options` with the one value of `cell` in place of every list.
Options options_of_cell(const Options& options, const RunCell& cell);

// Throws ConfigError when --save-model is given and the options make several runs, whose weights
// would overwrite each other.
void check_saving(const Options& options);

// The options that hold lists here, as flags: "--gpus", "--batch-size", ...
std::vector<std::string> listed_options(const Options& options);

// "ddp on 2 devices, batch 32, overlap off", for people: what the lists of `options` vary is named.
// The repetition (from 1) too, when there may be several.
std::string run_title(const RunCell& cell, const Options& options);

}  // namespace ddpbench::bench
