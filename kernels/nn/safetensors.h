// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Named tensors to and from safetensors files, such that `safetensors.torch.load_file` gives a
// state_dict. Format: 8-byte little-endian header length, JSON header, raw little-endian data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/tensor_layout.h"

namespace ddpbench::nn {

// What a file's header tells of a tensor. As it is read, a float of any `type` becomes fp32.
struct TensorInfo {
  std::string name;
  ops::Shape shape;
  DataType type = DataType::fp32;
  bool operator==(const TensorInfo&) const = default;
};

struct NamedTensor {
  std::string name;
  ops::Shape shape;
  std::vector<float> values;  // plain order
  // The two belong to a tensor of integers, which has no `values`.
  DataType type = DataType::fp32;  // or int64
  std::vector<std::int64_t> integers = {};
};
std::span<const std::byte> bytes_of(const NamedTensor& tensor);
NamedTensor tensor_of(const TensorInfo& info, std::span<const std::byte> bytes);
std::vector<TensorInfo> infos_of(const std::vector<NamedTensor>& tensors);

// What the format keeps beside the tensors.
using Metadata = std::map<std::string, std::string>;

// Writes the whole file or nothing. Throws ConfigError when it cannot, and, without `force`, when a
// file of that name exists.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors, bool force,
                       const Metadata& metadata = {});
// Reads a file, or those that an index (model.safetensors.index.json) names.
// Throws ConfigError that names file, offset (or JSON pointer in the header), expected and found
// for a damaged file: truncated, header too long, overlapping or out-of-range offsets, sizes that
// disagree with shapes, another data type than I64, F16, BF16, F32 and F64.
std::vector<NamedTensor> read_safetensors(const std::string& path);
// The headers alone, in the order of the data. Throws as read_safetensors.
std::vector<TensorInfo> read_tensor_infos(const std::string& path);
// Throws as read_safetensors. Values that are no strings are left out.
Metadata read_metadata(const std::string& path);

}  // namespace ddpbench::nn
