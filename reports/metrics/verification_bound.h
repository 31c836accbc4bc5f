// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How far two computations of the same update may be apart by rounding alone. docs/verification.md
// derives both bounds. Pure.
#pragma once

namespace ddpbench::report {

// A bound on the relative error between two computations of the same gradients from the same
// weights, which differ in the order of their sums. `terms`: number of additions behind an element
// of a gradient. `unit_roundoff`: 2^-24 for fp32. Never above 1/50, so that no planted fault
// passes. Throws InternalError for what is no computation.
double verification_tolerance(double unit_roundoff, double terms);

// The spacing of fp32 numbers around the values of one tensor.
struct StoredSpacing {
  double squared_sum = 0;  // sum of the squared spacings of all elements
  double largest = 0;      // spacing around the largest element
};

// A bound on the 2-norm of the difference of two tensors after both were stored, when it was at
// most `exact` before: values that are nearly equal may be rounded to different neighbours.
double stored_difference_bound(double exact, const StoredSpacing& spacing);

}  // namespace ddpbench::report
