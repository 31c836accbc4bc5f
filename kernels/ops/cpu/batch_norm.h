// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Passes of batch norm over maps whose channels lie together in groups: [batch][groups][pixels]
// [inner], or [batch][pixels][channels]. All are bound by memory bandwidth.
//
// Sums are made for each sample apart and then added in the order of samples, so the team's size
// changes no bit. The caller gives memory for them: partial_count() doubles.
//
// Maps have elements of fp32 or bf16, all of one call the same. Arithmetic is fp32; what goes into
// a bf16 map is rounded once.
#pragma once

#include "kernels/ops/cpu/norm_rows.h"

namespace ddpbench::ops::cpu {

// Sum and sum of squared deviations from the mean of each channel. It reads x once, its first rows
// twice. Where these are far from the rest, that sample's group of maps is read once more.
void norm_statistics(Team team, const NormMaps& maps, const void* x, double* partial, double* sums,
                     double* squares);

// y = relu(scale * x + shift + addend), with one scale and shift a channel. `addend` may be null.
// Reads x (and addend), writes y.
struct NormResult {
  const float *scale, *shift;
  const void* addend = nullptr;
  bool relu = false;
};
void norm_forward(Team team, const NormMaps& maps, const void* x, const NormResult& result,
                  void* y);

// The gradient of the sum before the ReLU: dy where the output was positive, else 0.
struct NormGradient {
  const void* dy;
  const void* more = nullptr;  // if not null, dy + more stands for dy
  const float* mean;           // of each channel
  bool relu = false;
  const void* y = nullptr;  // tells what was cut; null: scale * x + shift does
  const float *scale = nullptr, *shift = nullptr;
};
// sum(g) and sum(g * (x - mean)) of each channel, for the gradient g. Where `rectified` is not
// null, g is written to it; the sums are of g before it is rounded to bf16. Reads x, dy (and more,
// and y).
void norm_gradient_sums(Team team, const NormMaps& maps, const void* x,
                        const NormGradient& gradient, void* rectified, double* partial,
                        double* sums, double* products);
// dx = a * g + b * (x - mean) + c, with one factor of each a channel. Reads x, dy (and more, and
// y), writes dx.
void norm_backward(Team team, const NormMaps& maps, const void* x, const NormGradient& gradient,
                   const float* a, const float* b, const float* c, void* dx);

}  // namespace ddpbench::ops::cpu
