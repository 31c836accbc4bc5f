// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Unrolls the micro-batches once, so that a step only calls operations.
#include "kernels/nn/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "kernels/nn/plan/plan.h"

namespace ddpbench::nn {

class Program::Binder {
 public:
  Binder(Program& program, const Plan& plan, const ParameterPlan& parameters,
         const ProgramMemory& memory)
      : program_(program), plan_(plan), parameters_(parameters), memory_(memory) {
    reserve();
  }

  void run() {
    const std::span<const PlannedCall> forward = plan_.forward, backward = plan_.backward;
    const auto is_micro = [](const PlannedCall& planned) { return planned.micro; };
    const auto leading = static_cast<std::size_t>(
        std::find_if_not(forward.begin(), forward.end(), is_micro) - forward.begin());
    const auto trailing = static_cast<std::size_t>(
        std::find_if(backward.begin(), backward.end(), is_micro) - backward.begin());
    const std::size_t calls = plan_.micro_batch == 0 ? 0 : plan_.repeats(true);
    if (plan_.cast_to_bf16 != nullptr) bind_cast();
    for (std::size_t k = 0; k < calls; ++k) bind(forward.first(leading), k, program_.forward_);
    bind(forward.subspan(leading), 0, program_.forward_);
    bind(backward.first(trailing), 0, program_.backward_);
    // From last to first, because forward left the last micro-batch's maps in the cache (0 to 2 %
    // of a SimpleCNN step of 256 samples faster than from first to last; Zen 4, 1 thread).
    for (std::size_t k = calls; k-- > 0;) bind(backward.subspan(trailing), k, program_.backward_);
  }

 private:
  void reserve() {
    std::size_t reads = 1, writes = 0;  // the first is the cast's
    for (const std::vector<PlannedCall>* list : {&plan_.forward, &plan_.backward}) {
      for (const PlannedCall& planned : *list) {
        const std::size_t repeats = plan_.repeats(planned.micro);
        reads += repeats * (planned.inputs.size() + 2 * planned.parameters.size());
        writes += repeats *
                  (planned.grad_inputs.size() + planned.parameters.size() + planned.state.size());
      }
    }
    program_.read_pointers_.reserve(reads);
    program_.write_pointers_.reserve(writes);
  }

  void bind(std::span<const PlannedCall> list, std::size_t k, std::vector<BoundCall>& calls) {
    for (const PlannedCall& planned : list) {
      add(calls, make_call(planned, k), call_name(planned, k, &calls == &program_.forward_));
    }
  }

  void bind_cast() {
    auto& pointers = program_.read_pointers_;
    pointers.push_back(memory_.weights.data);
    BoundCall call{.op = plan_.cast_to_bf16};
    call.forward = {.inputs = {&pointers.back(), 1},
                    .output = memory_.weights_bf16.data,
                    .workspace = memory_.workspace.data};
    add(program_.forward_, call, "weights to bf16");
  }

  void add(std::vector<BoundCall>& calls, const BoundCall& call, std::string name) {
    calls.push_back(call);
    calls.back().number = program_.call_names_.size();
    program_.call_names_.push_back(std::move(name));
  }

  // Backward may run forward operations: it undoes a layout, or adds gradients.
  std::string call_name(const PlannedCall& planned, std::size_t k, bool forward_pass) const {
    std::string name = planned.name;
    if (planned.direction == Direction::backward) {
      name += " backward";
    } else if (planned.direction == Direction::recompute) {
      name += " recompute";
    } else if (forward_pass) {
      name += " forward";
    }
    if (planned.micro) name += fmt::format(", micro-batch {} of {}", k + 1, plan_.repeats(true));
    return name;
  }

  std::byte* at(int value, bool micro, std::size_t k) const {
    if (value == kNoValue) return nullptr;
    const Value& v = plan_.values[static_cast<std::size_t>(value)];
    ensure(v.placed, "a call uses a value without memory");
    return memory_.arena.data + v.offset_bytes + (micro ? k * v.stride_bytes : 0);
  }

  BoundCall make_call(const PlannedCall& planned, std::size_t k) {
    BoundCall call{.op = planned.op, .direction = planned.direction};
    const std::span<const void* const> inputs = input_pointers(planned, k);
    const std::span<const void* const> weights =
        parameter_pointers(planned, memory_.weights, sizeof(float));
    std::span<const void* const> bf16;
    if (planned.op->plan().reads_bf16_weights) {
      bf16 = parameter_pointers(planned, memory_.weights_bf16, size_of(DataType::bf16));
    }
    void* const output = at(planned.output, planned.micro, k);
    void* const saved = at(planned.saved, planned.micro, k);
    const auto samples = static_cast<std::size_t>(planned.micro ? plan_.micro_batch : 0);
    const ops::RandomDraw draw{.step = memory_.steps,
                               .first_sample = static_cast<std::int64_t>(k * samples)};
    if (planned.direction != Direction::backward) {
      call.forward = {
          inputs, output, weights, saved, memory_.workspace.data, bf16, state_pointers(planned)};
      call.forward.draw = draw;
      return call;
    }
    call.backward.draw = draw;
    call.backward.inputs = inputs;
    call.backward.output = output;
    call.backward.grad_output = at(planned.grad_output, planned.micro, k);
    call.backward.more_grad_output = at(planned.more_grad_output, planned.micro, k);
    call.backward.grad_inputs = gradient_pointers(planned, k);
    call.backward.parameters = weights;
    call.backward.grad_parameters = parameter_gradient_pointers(planned);
    call.backward.saved = saved;
    call.backward.workspace = memory_.workspace.data;
    call.backward.bf16_weights = bf16;
    // Micro-batches run from last to first.
    call.adds = planned.micro && k + 1 < plan_.repeats(true);
    if (!planned.micro || k == 0) add_ready(planned, call);
    return call;
  }

  void add_ready(const PlannedCall& planned, BoundCall& call) {
    call.ready_begin = program_.ready_.size();
    call.ready_count = planned.parameters.size();
    program_.ready_.insert(program_.ready_.end(), planned.parameters.begin(),
                           planned.parameters.end());
    std::sort(program_.ready_.end() - static_cast<std::ptrdiff_t>(call.ready_count),
              program_.ready_.end());
  }

  std::span<const void* const> input_pointers(const PlannedCall& planned, std::size_t k) {
    auto& pointers = program_.read_pointers_;
    const std::size_t begin = pointers.size();
    for (const int input : planned.inputs) {
      if (input == plan_.input) {
        const std::size_t slice = planned.micro ? bytes_at(plan_, input, true) : 0;
        program_.input_pointers_.emplace_back(pointers.size(), k * slice);
        pointers.push_back(nullptr);
      } else {
        pointers.push_back(at(input, planned.micro, k));
      }
    }
    return {pointers.data() + begin, planned.inputs.size()};
  }

  // Appends at(i) of all `items`, and returns what it appended.
  template <typename Pointer, typename Items, typename At>
  static std::span<const Pointer> append(std::vector<Pointer>& pointers, const Items& items,
                                         const At& at) {
    const std::size_t begin = pointers.size();
    for (const auto item : items) pointers.push_back(at(item));
    return {pointers.data() + begin, items.size()};
  }

  std::span<const void* const> parameter_pointers(const PlannedCall& planned,
                                                  const BufferView& flat,
                                                  std::size_t element_bytes) {
    return append(program_.read_pointers_, planned.parameters, [&](std::size_t i) {
      return flat.data + parameters_.parameters[i].offset_bytes / sizeof(float) * element_bytes;
    });
  }

  std::span<void* const> gradient_pointers(const PlannedCall& planned, std::size_t k) {
    return append(program_.write_pointers_, planned.grad_inputs,
                  [&](int gradient) { return at(gradient, planned.micro, k); });
  }

  std::span<void* const> parameter_gradient_pointers(const PlannedCall& planned) {
    return append(program_.write_pointers_, planned.parameters, [&](std::size_t i) {
      return memory_.gradients.data + parameters_.parameters[i].offset_bytes;
    });
  }

  std::span<void* const> state_pointers(const PlannedCall& planned) {
    return append(program_.write_pointers_, planned.state, [&](std::size_t i) {
      return memory_.state.data + parameters_.state[i].offset_bytes;
    });
  }

  Program& program_;
  const Plan& plan_;
  const ParameterPlan& parameters_;
  const ProgramMemory& memory_;
};

Program::Program(const Plan& plan, const ParameterPlan& parameters, const ProgramMemory& memory) {
  Binder(*this, plan, parameters, memory).run();
}

void Program::forward(Stream& stream, const float* input, ops::Mode mode,
                      const ops::SamplePlaces& places) {
  const auto* bytes = reinterpret_cast<const std::byte*>(input);
  for (const auto& [pointer, offset] : input_pointers_) read_pointers_[pointer] = bytes + offset;
  for (BoundCall& call : forward_) {
    call.forward.mode = mode;
    call.forward.draw.places = places;
    run(call, stream);
  }
  for (BoundCall& call : backward_) call.backward.draw.places = places;
}

void Program::run(BoundCall& call, Stream& stream) {
  if (observer_ != nullptr) observer_->begin_call(call.number, stream);
  switch (call.direction) {
    case Direction::forward:
      call.op->forward(stream, call.forward);
      break;
    case Direction::recompute:
      call.op->recompute(stream, call.forward);
      break;
    case Direction::backward:
      call.op->backward(stream, call.backward);
      break;
  }
  if (observer_ != nullptr) observer_->end_call(call.number, stream);
}

void Program::backward(Stream& stream, const GradientReady& ready, bool accumulate) {
  for (BoundCall& call : backward_) {
    call.backward.accumulate = accumulate || call.adds;
    run(call, stream);
    if (!ready) continue;
    for (std::size_t i = 0; i < call.ready_count; ++i) ready(ready_[call.ready_begin + i]);
  }
}

}  // namespace ddpbench::nn
