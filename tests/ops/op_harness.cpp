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

std::vector<const void*> addresses(const std::vector<OpMemory>& memory) {
  std::vector<const void*> result;
  for (const OpMemory& m : memory) result.push_back(m.data());
  return result;
}

std::vector<void*> writable(const std::vector<OpMemory>& memory) {
  std::vector<void*> result;
  for (const OpMemory& m : memory) result.push_back(m.data());
  return result;
}

// One forward and one backward call with all the memory that they touch.
class OpCall {
 public:
  OpCall(BackendFixture& fixture, Op& op, const OpInputs& in)
      : fixture_(fixture),
        op_(op),
        in_(in),
        specs_(op.plan().parameters),
        output_(fixture.allocate(op.plan().output.bytes)),
        recomputed_(fixture.allocate(op.plan().recomputes_output ? op.plan().output.bytes : 0)),
        saved_(fixture.allocate(op.plan().saved_bytes)),
        forward_workspace_(fixture.allocate(op.plan().workspace_bytes)),
        recompute_workspace_(fixture.allocate(op.plan().workspace_bytes)),
        backward_workspace_(fixture.allocate(op.plan().workspace_bytes)),
        grad_output_(fixture.to_layout(in.grad_output, op.plan().output)),
        more_grad_output_(in.more_grad_output.empty()
                              ? fixture.allocate(0)
                              : fixture.to_layout(in.more_grad_output, op.plan().output)),
        step_(fixture.upload(&in.step, sizeof(in.step))),
        draw_(in.draw) {
    draw_.step = reinterpret_cast<const std::int64_t*>(step_.data());
    for (std::size_t i = 0; i < op.plan().inputs.size(); ++i) {
      inputs_.push_back(fixture.to_layout(in.inputs.at(i), op.plan().inputs[i]));
      grad_inputs_.push_back(fixture.allocate(op.plan().inputs[i].bytes));
    }
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      parameters_.push_back(fixture.to_layout(in.parameters.at(i), specs_[i].layout));
      if (const DataType type = op.plan().weight_type; type != DataType::fp32) {
        weight_copies_.push_back(
            fixture.to_layout(in.parameters[i], with_type(specs_[i].layout, type)));
      }
      if (in.initial_gradients.empty())
        grad_parameters_.push_back(fixture.allocate(specs_[i].layout.bytes));
      else
        grad_parameters_.push_back(fixture.to_layout(in.initial_gradients[i], specs_[i].layout));
    }
    const std::vector<StateSpec> state = op.plan().state;
    for (std::size_t i = 0; i < state.size(); ++i) {
      state_types_.push_back(state[i].type);
      const auto count = static_cast<std::size_t>(element_count(state[i].shape));
      state_.push_back(upload_state(
          state[i].type,
          in.state.empty() ? Values(count, static_cast<float>(state[i].start)) : in.state.at(i)));
    }
  }

  void queue() {
    const auto inputs = addresses(inputs_), parameters = addresses(parameters_);
    const auto weight_copies = addresses(weight_copies_);
    const auto state = writable(state_);
    op_.forward(fixture_.stream(), {.inputs = inputs,
                                    .output = output_.data(),
                                    .parameters = parameters,
                                    .saved = saved_.data(),
                                    .workspace = forward_workspace_.data(),
                                    .weight_copies = weight_copies,
                                    .state = state,
                                    .mode = in_.mode,
                                    .draw = draw_});
    if (in_.mode == Mode::evaluation) return;
    recompute(inputs, parameters, weight_copies);
    std::vector<const void*> needed_inputs(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < needed_inputs.size(); ++i) {
      if (i >= op_.plan().needed_inputs) needed_inputs[i] = nullptr;
    }
    auto grad_inputs = writable(grad_inputs_);
    for (std::size_t i = 0; i < grad_inputs.size(); ++i) {
      if (!is_wanted(i)) grad_inputs[i] = nullptr;
    }
    const auto grad_parameters = writable(grad_parameters_);
    op_.backward(
        fixture_.stream(),
        {.inputs = needed_inputs,
         .output = op_.plan().needs_output ? output_.data() : nullptr,
         .grad_output = grad_output_.data(),
         .more_grad_output = in_.more_grad_output.empty() ? nullptr : more_grad_output_.data(),
         .grad_inputs = grad_inputs,
         .parameters = parameters,
         .grad_parameters = grad_parameters,
         .accumulate = !in_.initial_gradients.empty(),
         .saved = saved_.data(),
         .workspace = backward_workspace_.data(),
         .weight_copies = weight_copies,
         .draw = draw_});
  }

  OpOutputs results() {
    fixture_.stream().synchronize();
    OpOutputs out;
    out.output = fixture_.to_plain(output_, op_.plan().output);
    if (is_recomputed()) {
      EXPECT_TRUE(same_bits(fixture_.to_plain(recomputed_, op_.plan().output), out.output))
          << op_.plan().description << ", recomputed";
    }
    for (std::size_t i = 0; in_.want_grad_inputs && i < grad_inputs_.size(); ++i)
      out.grad_inputs.push_back(
          is_wanted(i) ? fixture_.to_plain(grad_inputs_[i], op_.plan().inputs[i]) : Values());
    for (std::size_t i = 0; i < specs_.size(); ++i)
      out.grad_parameters.push_back(fixture_.to_plain(grad_parameters_[i], specs_[i].layout));
    for (std::size_t i = 0; i < state_.size(); ++i) out.state.push_back(download_state(i));
    return out;
  }

 private:
  bool is_recomputed() const { return in_.mode == Mode::training && op_.plan().recomputes_output; }
  void recompute(std::span<const void* const> inputs, std::span<const void* const> parameters,
                 std::span<const void* const> weight_copies) {
    if (!is_recomputed()) return;
    op_.recompute(fixture_.stream(), {.inputs = inputs,
                                      .output = recomputed_.data(),
                                      .parameters = parameters,
                                      .saved = saved_.data(),
                                      .workspace = recompute_workspace_.data(),
                                      .weight_copies = weight_copies,
                                      .draw = draw_});
  }
  bool is_wanted(std::size_t input) const {
    return in_.want_grad_inputs && std::ranges::count(in_.unwanted, input) == 0;
  }
  OpMemory upload_state(DataType type, const Values& values) {
    if (type == DataType::fp32) return fixture_.upload(values);
    return fixture_.upload(std::vector<std::int64_t>(values.begin(), values.end()));
  }
  Values download_state(std::size_t i) {
    if (state_types_[i] == DataType::fp32) return fixture_.download<float>(state_[i]);
    Values values;
    for (const std::int64_t count : fixture_.download<std::int64_t>(state_[i])) {
      values.push_back(static_cast<float>(count));
    }
    return values;
  }

  BackendFixture& fixture_;
  Op& op_;
  const OpInputs& in_;
  std::vector<ParameterSpec> specs_;
  OpMemory output_, recomputed_, saved_;
  OpMemory forward_workspace_, recompute_workspace_, backward_workspace_, grad_output_,
      more_grad_output_;
  std::vector<OpMemory> inputs_, parameters_, weight_copies_, grad_inputs_, grad_parameters_;
  std::vector<OpMemory> state_;
  std::vector<DataType> state_types_;
  OpMemory step_;
  RandomDraw draw_;
};

}  // namespace

Values random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  Values values(static_cast<std::size_t>(count));
  // 24 bits of the generator, since std's distributions differ between libraries.
  for (float& v : values) v = static_cast<float>(generator() >> 8) * 0x1p-23F - 1;
  return values;
}

Values shuffled_values(std::int64_t count, std::uint32_t seed) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  std::shuffle(values.begin(), values.end(), std::mt19937(seed));
  return values;
}

OpMemory::OpMemory(std::size_t bytes)
    : host_(static_cast<std::byte*>(::operator new(bytes, kAlignment))), bytes_(bytes) {
  std::memset(host_.get(), 0xFF, bytes);
}

OpMemory::OpMemory(Device& device, Stream& stream, std::size_t bytes)
    : buffer_(device.allocate(std::max<std::size_t>(bytes, 1), MemoryCategory::workspace)),
      bytes_(bytes) {
  std::vector<std::byte> poison(bytes, std::byte{0xFF});
  device.copy(stream, {buffer_.data(), bytes}, {poison.data(), bytes});
  stream.synchronize();
}

void OpMemory::Free::operator()(std::byte* p) const { ::operator delete(p, kAlignment); }

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

BackendFixture BackendFixture::on(std::unique_ptr<Device> device,
                                  const std::function<std::unique_ptr<OpBackend>(Device&)>& make) {
  BackendFixture fixture;
  fixture.device_ = std::move(device);
  fixture.device_->bind_calling_thread();
  fixture.stream_ = fixture.device_->make_stream();
  fixture.backend_ = make(*fixture.device_);
  return fixture;
}

OpMemory BackendFixture::allocate(std::size_t bytes) {
  if (device_->is_host_accessible()) return OpMemory(bytes);
  return {*device_, *stream_, bytes};
}

OpMemory BackendFixture::upload(const void* host, std::size_t bytes) {
  OpMemory memory = allocate(bytes);
  // The copy only reads its source, but BufferView has no constant form.
  auto* const source = static_cast<std::byte*>(const_cast<void*>(host));
  device_->copy(*stream_, {memory.data(), bytes}, {source, bytes});
  stream_->synchronize();
  return memory;
}

void BackendFixture::download(const OpMemory& memory, void* host) {
  device_->copy(*stream_, {static_cast<std::byte*>(host), memory.bytes()},
                {memory.data(), memory.bytes()});
  stream_->synchronize();
}

OpMemory BackendFixture::to_layout(const Values& plain, const TensorLayout& layout) {
  EXPECT_EQ(plain.size(), static_cast<std::size_t>(element_count(layout.shape)));
  OpMemory memory = allocate(layout.bytes);
  const OpMemory source = upload(plain);
  backend_->convert(TensorLayout::plain(layout.shape), source.data(), layout, memory.data());
  return memory;
}

Values BackendFixture::to_plain(const OpMemory& memory, const TensorLayout& layout) {
  const OpMemory plain = allocate(TensorLayout::plain(layout.shape).bytes);
  backend_->convert(layout, memory.data(), TensorLayout::plain(layout.shape), plain.data());
  return download<float>(plain);
}

std::vector<int> team_sizes() {
#ifdef __SANITIZE_THREAD__
  return {1};
#else
  return {1, 2};
#endif
}

OpInputs with_added_gradient(OpInputs in) {
  for (std::size_t i = 0; i < in.more_grad_output.size(); ++i) {
    in.grad_output[i] += in.more_grad_output[i];
  }
  in.more_grad_output.clear();
  return in;
}

OpInputs random_inputs(const Op& op, std::uint32_t seed) {
  OpInputs in;
  for (std::size_t i = 0; i < op.plan().inputs.size(); ++i)
    in.inputs.push_back(random_values(element_count(op.plan().inputs[i].shape), seed++));
  for (const ParameterSpec& spec : op.plan().parameters)
    in.parameters.push_back(random_values(element_count(spec.shape), seed++));
  in.grad_output = random_values(element_count(op.plan().output.shape), seed++);
  return in;
}

OpOutputs run(BackendFixture& fixture, Op& op, const OpInputs& in, Execution execution) {
  OpCall call(fixture, op, in);
  call.queue();
  if (execution == Execution::direct) return call.results();
  fixture.stream().synchronize();
  OpCall second(fixture, op, in);
  fixture.stream().begin_recording();
  second.queue();
  const auto recording = fixture.stream().end_recording();
  recording->replay(fixture.stream());
  return second.results();
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

OpOutputs without_gradients(OpOutputs outputs, const std::vector<std::size_t>& inputs) {
  for (const std::size_t input : inputs) outputs.grad_inputs.at(input).clear();
  return outputs;
}

void run_as_laid_out(Op& op, const Values& x, const std::vector<const void*>& parameters, Values& y,
                     Values& dx, const std::vector<void*>& grad_parameters) {
  const auto device = make_cpu_device({});
  const auto stream = device->make_stream();
  const OpMemory workspace(op.plan().workspace_bytes);
  const void* const inputs[] = {x.data()};
  void* const grad_inputs[] = {dx.data()};
  op.forward(*stream, {.inputs = inputs,
                       .output = y.data(),
                       .parameters = parameters,
                       .workspace = workspace.data()});
  op.backward(*stream, {.inputs = inputs,
                        .output = y.data(),
                        .grad_output = y.data(),
                        .grad_inputs = grad_inputs,
                        .parameters = parameters,
                        .grad_parameters = grad_parameters,
                        .workspace = workspace.data()});
}

void expect_same_bits(const OpOutputs& got, const OpOutputs& want) {
  EXPECT_TRUE(same_bits(got.output, want.output));
  const auto compare = [](const char* what, const std::vector<Values>& ours,
                          const std::vector<Values>& theirs) {
    ASSERT_EQ(ours.size(), theirs.size()) << what;
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(same_bits(ours[i], theirs[i])) << what << ' ' << i;
  };
  compare("input gradient", got.grad_inputs, want.grad_inputs);
  compare("parameter gradient", got.grad_parameters, want.grad_parameters);
  compare("state", got.state, want.state);
}

double sum_tolerance(std::int64_t terms) {
  return static_cast<double>(std::numeric_limits<float>::epsilon()) *
         static_cast<double>(std::max<std::int64_t>(terms, 1) + 1);
}

std::vector<BackendFixture> all_backends() {
  std::vector<BackendFixture> fixtures;
  fixtures.push_back(BackendFixture::reference());
  for (const int threads : team_sizes()) fixtures.push_back(BackendFixture::onednn(threads));
  return fixtures;
}

}  // namespace ddpbench::ops::testing
