// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Synthetic samples are drawn by as many threads as the cores that the calling thread may run on,
// at most 16.
#pragma once

#include <cstddef>
#include <functional>

namespace ddpbench::data {

// Calls `draw` with each number below `count`, from several threads at once. Returns when all are
// drawn. Throws what a call of `draw` throws; other samples may then be missing.
void draw_samples(std::size_t count, const std::function<void(std::size_t)>& draw);

}  // namespace ddpbench::data
