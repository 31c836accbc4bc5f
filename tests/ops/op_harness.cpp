// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The harness that runs one operation on plain data.
#include "tests/ops/op_harness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <random>

namespace ddpbench::ops::testing {
namespace {

constexpr std::align_val_t kAlignment{64};

std::vector<const void*> addresses(const std::vector<AlignedMemory>& memory) {
  std::vector<const void*> result;
  for (const AlignedMemory& m : memory) result.push_back(m.data());
  return result;
}

std::vector<void*> writable(const std::vector<AlignedMemory>& memory) {
  std::vector<void*> result;
  for (const AlignedMemory& m : memory) result.push_back(m.data());
  return result;
}

}  // namespace

Values random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  Values values(static_cast<std::size_t>(count));
  // 24 bits of the generator: std's distributions differ between libraries.
  for (float& v : values) v = static_cast<float>(generator() >> 8) * 0x1p-23F - 1;
  return values;
}

Values shuffled_values(std::int64_t count, std::uint32_t seed) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  std::shuffle(values.begin(), values.end(), std::mt19937(seed));
  return values;
}

AlignedMemory::AlignedMemory(std::size_t bytes)
    : data_(static_cast<std::byte*>(::operator new(bytes, kAlignment))), bytes_(bytes) {
  std::memset(data_.get(), 0xFF, bytes);
}

void AlignedMemory::Free::operator()(std::byte* p) const { ::operator delete(p, kAlignment); }

BackendFixture BackendFixture::onednn(int threads) {
  BackendFixture fixture;
  fixture.device_ = make_cpu_device({.threads = threads});
  fixture.device_->bind_calling_thread();
  fixture.stream_ = fixture.device_->make_stream();
  fixture.backend_ = make_onednn_backend(*fixture.device_);
  return fixture;
}

BackendFixture BackendFixture::reference() {
  BackendFixture fixture;
  fixture.device_ = make_cpu_device({});
  fixture.stream_ = fixture.device_->make_stream();
  fixture.backend_ = make_reference_backend();
  return fixture;
}

AlignedMemory BackendFixture::to_layout(const Values& plain, const TensorLayout& layout) {
  EXPECT_EQ(plain.size(), static_cast<std::size_t>(element_count(layout.shape)));
  AlignedMemory memory(layout.bytes);
  backend_->convert(TensorLayout::plain(layout.shape), plain.data(), layout, memory.data());
  return memory;
}

Values BackendFixture::to_plain(const AlignedMemory& memory, const TensorLayout& layout) {
  Values plain(static_cast<std::size_t>(element_count(layout.shape)));
  backend_->convert(layout, memory.data(), TensorLayout::plain(layout.shape), plain.data());
  return plain;
}

std::vector<int> team_sizes() {
#ifdef __SANITIZE_THREAD__
  return {1};
#else
  return {1, 2};
#endif
}

OpInputs random_inputs(const Op& op, std::uint32_t seed) {
  OpInputs in;
  for (std::size_t i = 0; i < op.input_count(); ++i)
    in.inputs.push_back(random_values(element_count(op.input_layout(i).shape), seed++));
  for (const ParameterSpec& spec : op.parameters())
    in.parameters.push_back(random_values(element_count(spec.shape), seed++));
  in.grad_output = random_values(element_count(op.output_layout().shape), seed++);
  return in;
}

OpOutputs run(BackendFixture& fixture, Op& op, const OpInputs& in) {
  const std::vector<ParameterSpec> specs = op.parameters();
  std::vector<AlignedMemory> inputs, parameters, grad_inputs, grad_parameters;
  for (std::size_t i = 0; i < op.input_count(); ++i) {
    inputs.push_back(fixture.to_layout(in.inputs.at(i), op.input_layout(i)));
    grad_inputs.emplace_back(op.input_layout(i).bytes);
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    parameters.push_back(fixture.to_layout(in.parameters.at(i), specs[i].layout));
    if (in.initial_gradients.empty())
      grad_parameters.emplace_back(specs[i].layout.bytes);
    else
      grad_parameters.push_back(fixture.to_layout(in.initial_gradients[i], specs[i].layout));
  }
  const AlignedMemory output(op.output_layout().bytes), saved(op.saved_bytes());
  const AlignedMemory forward_workspace(op.workspace_bytes());
  const AlignedMemory backward_workspace(op.workspace_bytes());

  const auto input_pointers = addresses(inputs), parameter_pointers = addresses(parameters);
  op.forward(fixture.stream(), {.inputs = input_pointers,
                                .output = output.data(),
                                .parameters = parameter_pointers,
                                .saved = saved.data(),
                                .workspace = forward_workspace.data()});

  const AlignedMemory grad_output = fixture.to_layout(in.grad_output, op.output_layout());
  const std::vector<const void*> no_inputs(inputs.size(), nullptr);
  auto grad_input_pointers = writable(grad_inputs);
  if (!in.want_grad_inputs)
    std::fill(grad_input_pointers.begin(), grad_input_pointers.end(), nullptr);
  const auto grad_parameter_pointers = writable(grad_parameters);
  op.backward(fixture.stream(), {.inputs = op.backward_needs_inputs() ? input_pointers : no_inputs,
                                 .output = op.backward_needs_output() ? output.data() : nullptr,
                                 .grad_output = grad_output.data(),
                                 .grad_inputs = grad_input_pointers,
                                 .parameters = parameter_pointers,
                                 .grad_parameters = grad_parameter_pointers,
                                 .accumulate = !in.initial_gradients.empty(),
                                 .saved = saved.data(),
                                 .workspace = backward_workspace.data()});

  OpOutputs out;
  out.output = fixture.to_plain(output, op.output_layout());
  for (std::size_t i = 0; in.want_grad_inputs && i < grad_inputs.size(); ++i)
    out.grad_inputs.push_back(fixture.to_plain(grad_inputs[i], op.input_layout(i)));
  for (std::size_t i = 0; i < specs.size(); ++i)
    out.grad_parameters.push_back(fixture.to_plain(grad_parameters[i], specs[i].layout));
  return out;
}

::testing::AssertionResult all_near(const Values& got, const Values& want, double tolerance) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(static_cast<double>(got[i]) - want[i]) <= tolerance))
      return ::testing::AssertionFailure()
             << "element " << i << " of " << got.size() << " is " << got[i] << ", expected "
             << want[i] << " +- " << tolerance;
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_bits(const Values& got, const Values& want) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i]))
      return ::testing::AssertionFailure() << "element " << i << " of " << got.size() << " is "
                                           << got[i] << ", expected the bits of " << want[i];
  return ::testing::AssertionSuccess();
}

double sum_tolerance(std::int64_t terms) {
  return static_cast<double>(std::numeric_limits<float>::epsilon()) *
         static_cast<double>(std::max<std::int64_t>(terms, 1) + 1);
}

}  // namespace ddpbench::ops::testing
