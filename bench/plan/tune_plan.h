// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which bucket settings `ddpbench tune` tries. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/options/options.h"
#include "bench/plan/sweep_plan.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::bench {

// Sizes of the gradient buckets that ddp makes of `model`, in bytes, first sent first. As
// plan_buckets, from the shapes alone: a device's memory layouts may pad tensors a little.
std::vector<std::size_t> bucket_bytes(const nn::ModelSpec& model, double first_bucket_mb,
                                      double bucket_cap_mb);

// Fills the lists of bucket sizes and overlap that are empty with sizes that suit the model, and
// puts PyTorch's defaults (1 and 25 MiB, overlap on) first in all of them.
void fill_tune_lists(Options& options, const nn::ModelSpec& model);

// Of the cells of one ddp world, those worth a run: the first, which is the default, and one for
// every other way to cut the gradients; without overlap, where buckets only cost, only the
// default's buckets and the fewest.
std::vector<std::size_t> distinct_settings(const std::vector<RunCell>& cells,
                                           const nn::ModelSpec& model);

}  // namespace ddpbench::bench
