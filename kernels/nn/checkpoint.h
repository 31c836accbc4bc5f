// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which tensors a network's checkpoint has, and how those of a file differ from them. Headers are
// enough to tell, so that weights of another network are refused before there is a device.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/nn/model/model.h"
#include "kernels/nn/safetensors.h"

namespace ddpbench::nn {

// What PyTorch's state_dict() has: the weights (first layer first, weight before bias), then the
// state (running statistics), the first layer's first.
std::vector<TensorInfo> checkpoint_tensors(const ModelSpec& model);

// What all names begin with that were saved from a network within DataParallel or
// DistributedDataParallel ("module."), torch.compile ("_orig_mod."), Lightning and others
// ("model."), or several of them, up to where the first name is one of the network's; empty:
// nothing.
std::string wrapper_prefix(const ModelSpec& model, const std::vector<TensorInfo>& tensors);

// For each of checkpoint_tensors() the index in `tensors`, in any order and also where all names
// have that prefix; not set: a count of batches that is missing, as in files that PyTorch wrote
// before it had that count; it is then 0, as PyTorch takes it. Throws ConfigError that begins with
// `origin`, and counts and names tensors that are missing, surplus, or of another shape or
// type (both are told).
std::vector<std::optional<std::size_t>> match_checkpoint(const ModelSpec& model,
                                                         const std::vector<TensorInfo>& tensors,
                                                         const std::string& origin);

// Of the tensors of `whole`, which may have a prefix, those of a network of some of its layers.
std::vector<NamedTensor> tensors_of(const ModelSpec& part, const ModelSpec& whole,
                                    const std::vector<NamedTensor>& tensors);

}  // namespace ddpbench::nn
