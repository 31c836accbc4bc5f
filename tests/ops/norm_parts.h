// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm over a batch that is divided into parts.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/ops/op_harness.h"
#include "tests/ops/part_threads.h"

namespace ddpbench::ops::testing {

// What each part of `whole` gives, on a thread with a backend of its own from `make_backend`.
// `of_part` describes the operation, without its parts.
inline std::vector<OpOutputs> run_norm_parts(const std::function<BackendFixture()>& make_backend,
                                             const OpInputs& whole, std::size_t parts,
                                             const BatchNorm2dDesc& of_part) {
  GatherThroughHost::Meeting meeting(parts);
  std::vector<OpOutputs> outputs(parts);
  for_each_part(parts, [&](std::size_t p) {
    BackendFixture fixture = make_backend();
    GatherThroughHost gather(meeting, p, fixture.device());
    BatchNorm2dDesc norm = of_part;
    norm.parts = &gather;
    const auto op = fixture.backend().make(norm);
    OpInputs in = whole;
    for (Values& input : in.inputs) input = part_of(input, p, parts);
    in.grad_output = part_of(in.grad_output, p, parts);
    if (!in.more_grad_output.empty()) {
      in.more_grad_output = part_of(in.more_grad_output, p, parts);
    }
    outputs[p] = run(fixture, *op, in);
    EXPECT_EQ(gather.gathered, in.mode == Mode::training ? 2 : 0);
  });
  return outputs;
}

}  // namespace ddpbench::ops::testing
