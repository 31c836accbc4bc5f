// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Weights to and from safetensors files, with PyTorch's names, shapes and order, so that
// `safetensors.torch.load_file` gives a state_dict. Format: 8-byte little-endian header length,
// JSON header, raw little-endian data.
#pragma once

#include <string>
#include <vector>

#include "kernels/ops/tensor_layout.h"

namespace ddpbench::nn {

class Graph;

struct NamedTensor {
  std::string name;
  ops::Shape shape;
  std::vector<float> values;  // plain order
};

// Writes to a temporary file beside `path`, syncs, renames. Throws ConfigError when it cannot.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors);
// Throws ConfigError that names file, offset, expected and found for anything damaged: truncated,
// header too long, overlapping or out-of-range offsets, sizes that disagree with shapes, a data
// type other than F32.
std::vector<NamedTensor> read_safetensors(const std::string& path);

// All weights in PyTorch's order (first layer first, weight before bias).
std::vector<NamedTensor> export_weights(const Graph& graph);
// Throws ConfigError naming missing, surplus or differently shaped tensors; then nothing changed.
void import_weights(Graph& graph, const std::vector<NamedTensor>& tensors,
                    const std::string& origin);

}  // namespace ddpbench::nn
