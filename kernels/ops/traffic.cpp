// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/traffic.h"

namespace ddpbench::ops {
namespace {

constexpr double kFloat = sizeof(float);

double input_bytes(const Op& op) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < op.plan().inputs.size(); ++i) sum += op.plan().inputs[i].bytes;
  return static_cast<double>(sum);
}

double parameter_bytes(const Op& op) {
  std::size_t sum = 0;
  for (const ParameterSpec& spec : op.plan().parameters) sum += spec.layout.bytes;
  return static_cast<double>(sum);
}

// The bytes of parameters that the operation reads.
double read_parameter_bytes(const Op& op) {
  const double bytes = parameter_bytes(op);
  if (!op.plan().reads_bf16_weights) return bytes;
  return bytes / kFloat * static_cast<double>(size_of(DataType::bf16));
}

double kept_bytes(const Op& op) { return static_cast<double>(op.plan().saved_bytes); }
double output_bytes(const Op& op) { return static_cast<double>(op.plan().output.bytes); }

}  // namespace

double forward_bytes(const Op& op) {
  return input_bytes(op) + read_parameter_bytes(op) + output_bytes(op) + kept_bytes(op);
}

double backward_bytes(const Op& op, bool input_gradients) {
  double bytes = output_bytes(op) + kept_bytes(op) + parameter_bytes(op);
  for (std::size_t i = 0; i < op.plan().inputs.size(); ++i) {
    if (i < op.plan().needed_inputs) bytes += static_cast<double>(op.plan().inputs[i].bytes);
  }
  if (op.plan().needs_output) bytes += output_bytes(op);
  if (input_gradients) bytes += input_bytes(op) + read_parameter_bytes(op);
  return bytes;
}

// It reads and writes weights and slots, and reads gradients.
double optimizer_bytes(const OptimizerOptions& options, std::int64_t elements) {
  const auto slots = static_cast<double>(slot_count(options));
  return kFloat * (3 + 2 * slots) * static_cast<double>(elements);
}

double mean_bytes(std::int64_t elements, std::int64_t inputs) {
  return kFloat * static_cast<double>(inputs + 1) * static_cast<double>(elements);
}

double loss_bytes(std::int64_t batch, std::int64_t classes) {
  const double labels = sizeof(std::int32_t);
  return static_cast<double>(batch) * (2 * kFloat * static_cast<double>(classes) + labels);
}

double gather_bytes(std::int64_t batch, std::int64_t sample_elements) {
  const double label = sizeof(std::uint16_t) + 2 * sizeof(std::int32_t);
  return static_cast<double>(batch) * ((1 + kFloat) * static_cast<double>(sample_elements) + label);
}

}  // namespace ddpbench::ops
