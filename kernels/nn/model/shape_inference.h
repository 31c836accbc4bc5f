// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The shape that a layer gives for the shapes that it is given.
#pragma once

#include <span>
#include <string>

#include "kernels/nn/model/layer_reader.h"

namespace ddpbench::nn {

// `inputs` are shapes without the batch. Throws ConfigError naming `origin`, the entry's pointer
// (or the attribute's) and the shapes met when they do not fit the layer.
ops::Shape infer_shape(const LayerEntry& entry, std::span<const ops::Shape> inputs,
                       const std::string& origin);

// Trainable values of a layer whose first input has this shape.
std::int64_t parameter_count(const LayerSpec& layer, const ops::Shape& input);

}  // namespace ddpbench::nn
