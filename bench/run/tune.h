// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench tune`: tries bucket sizes of ddp, interleaved and repeated, and confirms the best
// against the default with fresh runs. It recommends the best or says that it makes no difference.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "bench/plan/sweep_plan.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::bench {

// Chooses the bucket settings that `ddpbench tune` tries. Pure.

// Sizes in bytes of the gradient buckets that ddp makes of `model`, in the order of sending. Like
// plan_buckets, but from the shapes alone: a device's memory layouts may pad tensors a little.
std::vector<std::size_t> bucket_bytes(const nn::ModelSpec& model, double first_bucket_mb,
                                      double bucket_cap_mb);

// Fills empty lists of bucket sizes and overlap with sizes that suit the model. PyTorch's defaults
// (1 and 25 MiB, overlap on) come first in all of them.
void fill_tune_lists(Options& options, const nn::ModelSpec& model);

// Returns the cells of one ddp world that are worth a run: the first, which is the default, and one
// for every other way to cut the gradients. Without overlap, buckets only cost: there, only the
// default's buckets and the fewest are worth a run.
std::vector<std::size_t> distinct_settings(const std::vector<RunCell>& cells,
                                           const nn::ModelSpec& model);

// Runs everything and writes the report; returns the exit code. Throws ConfigError for options that
// make several worlds or batches, or one device.
int run_tune(Options options, std::vector<std::string> arguments);

}  // namespace ddpbench::bench
