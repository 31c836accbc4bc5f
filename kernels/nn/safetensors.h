// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Named tensors to and from safetensors files, such that `safetensors.torch.load_file` gives a
// state_dict. Format: 8-byte little-endian header length, JSON header, raw little-endian data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops/tensor_layout.h"

namespace ddpbench::nn {

struct NamedTensor {
  std::string name;
  ops::Shape shape;
  std::vector<float> values;  // plain order
  // The two belong to a tensor of integers, which has no `values`.
  DataType type = DataType::fp32;  // or int64
  std::vector<std::int64_t> integers = {};
};

// Writes the whole file or nothing. Throws ConfigError when it cannot, and, without `force`, when a
// file of that name exists.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       bool force);
// Throws ConfigError that names file, offset, expected and found for a damaged file: truncated,
// header too long, overlapping or out-of-range offsets, sizes that disagree with shapes, a data
// type other than F32 and I64.
std::vector<NamedTensor> read_safetensors(const std::string& path);
// The names alone, from the header. Throws as read_safetensors.
std::vector<std::string> read_tensor_names(const std::string& path);

}  // namespace ddpbench::nn
