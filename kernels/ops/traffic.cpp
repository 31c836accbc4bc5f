// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/traffic.h"

namespace ddpbench::ops {
namespace {

constexpr double kFloat = sizeof(float);

struct Bytes {
  double inputs = 0, needed = 0, output = 0, saved = 0, parameters = 0, read_parameters = 0;
};

Bytes bytes_of(const OpPlan& plan) {
  Bytes bytes{.output = static_cast<double>(plan.output.bytes),
              .saved = static_cast<double>(plan.saved_bytes)};
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    bytes.inputs += static_cast<double>(plan.inputs[i].bytes);
    if (i < plan.needed_inputs) bytes.needed += static_cast<double>(plan.inputs[i].bytes);
  }
  for (const ParameterSpec& spec : plan.parameters) {
    bytes.parameters += static_cast<double>(spec.layout.bytes);
  }
  bytes.read_parameters = bytes.parameters / (plan.reads_bf16_weights ? 2 : 1);
  return bytes;
}

}  // namespace

double forward_bytes(const Op& op) {
  const Bytes bytes = bytes_of(op.plan());
  return bytes.inputs + bytes.read_parameters + bytes.output + bytes.saved;
}

double backward_bytes(const Op& op, bool input_gradients) {
  const Bytes bytes = bytes_of(op.plan());
  return bytes.output * (op.plan().needs_output ? 2 : 1) + bytes.saved + bytes.parameters +
         bytes.needed + (input_gradients ? bytes.inputs + bytes.read_parameters : 0);
}

// It reads and writes weights and slots, and reads gradients.
double optimizer_bytes(const OptimizerOptions& options, std::int64_t elements) {
  return kFloat * static_cast<double>(3 + 2 * slot_count(options)) * static_cast<double>(elements);
}

double mean_bytes(std::int64_t elements, std::int64_t inputs) {
  return kFloat * static_cast<double>((inputs + 1) * elements);
}

double loss_bytes(std::int64_t batch, std::int64_t classes) {
  return kFloat * static_cast<double>(batch * (2 * classes + 1));
}

double gather_bytes(std::int64_t batch, std::int64_t sample_elements) {
  const double label = sizeof(std::uint16_t) + 2 * sizeof(std::int32_t);
  return static_cast<double>(batch) * ((1 + kFloat) * static_cast<double>(sample_elements) + label);
}

}  // namespace ddpbench::ops
