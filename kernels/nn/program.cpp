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
      : program_(program), plan_(plan), parameters_(parameters), memory_(memory) {}

  void run() {
    const std::span<const PlannedCall> forward = plan_.forward, backward = plan_.backward;
    const auto is_micro = [](const PlannedCall& planned) { return planned.micro; };
    const auto leading = static_cast<std::size_t>(
        std::find_if_not(forward.begin(), forward.end(), is_micro) - forward.begin());
    const auto trailing = static_cast<std::size_t>(
        std::find_if(backward.begin(), backward.end(), is_micro) - backward.begin());
    const std::size_t calls = plan_.micro_batch == 0 ? 0 : plan_.repeats(true);
    for (const WeightCast& cast : plan_.casts) bind_cast(cast);
    for (std::size_t k = 0; k < calls; ++k) bind(forward.first(leading), k, program_.forward_);
    bind(forward.subspan(leading), 0, program_.forward_);
    bind(backward.first(trailing), 0, program_.backward_);
    // From last to first, because forward left the last micro-batch's maps in the cache (0 to 2 %
    // of a SimpleCNN step of 256 samples faster than from first to last; Zen 4, 1 thread).
    for (std::size_t k = calls; k-- > 0;) bind(backward.subspan(trailing), k, program_.backward_);
  }

 private:
  void bind(std::span<const PlannedCall> list, std::size_t k, std::vector<BoundCall>& calls) {
    for (const PlannedCall& planned : list) {
      add(calls, make_call(planned, k), call_name(planned, k, &calls == &program_.forward_));
    }
  }

  void bind_cast(const WeightCast& cast) {
    const DataType type = cast.op->plan().output.type;
    BoundCall call{.op = cast.op, .inputs = {memory_.weights.data + cast.offset_bytes}};
    call.forward = {
        .inputs = call.inputs,
        .output = memory_.weight_copies.data + cast.offset_bytes / sizeof(float) * size_of(type),
        .workspace = memory_.workspace.data};
    if (program_.unit_casts_.size() < parameters_.units.size()) {
      program_.unit_casts_.push_back(std::move(call));
    } else {
      add(program_.forward_, std::move(call), fmt::format("weights to {}", to_string(type)));
    }
  }

  void add(std::vector<BoundCall>& calls, BoundCall call, std::string name) {
    call.number = program_.call_names_.size();
    calls.push_back(std::move(call));
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

  // The spans of the arguments refer to the call's own vectors, whose elements stay where they are
  // when the call moves.
  BoundCall make_call(const PlannedCall& planned, std::size_t k) {
    BoundCall call{.op = planned.op, .direction = planned.direction};
    put_input_pointers(planned, k, call);
    put_parameter_pointers(planned, call);
    void* const output = at(planned.output, planned.micro, k);
    void* const saved = at(planned.saved, planned.micro, k);
    const auto samples = static_cast<std::size_t>(planned.micro ? plan_.micro_batch : 0);
    const ops::RandomDraw draw{.step = memory_.steps,
                               .first_sample = static_cast<std::int64_t>(k * samples)};
    if (planned.direction != Direction::backward) {
      call.forward = {.inputs = call.inputs,
                      .output = output,
                      .parameters = call.weights,
                      .saved = saved,
                      .workspace = memory_.workspace.data,
                      .weight_copies = call.weight_copies,
                      .state = call.state,
                      .draw = draw};
      return call;
    }
    for (const int gradient : planned.grad_inputs) {
      call.grad_inputs.push_back(at(gradient, planned.micro, k));
    }
    call.backward = {.inputs = call.inputs,
                     .output = output,
                     .grad_output = at(planned.grad_output, planned.micro, k),
                     .more_grad_output = at(planned.more_grad_output, planned.micro, k),
                     .grad_inputs = call.grad_inputs,
                     .parameters = call.weights,
                     .grad_parameters = call.grad_parameters,
                     .saved = saved,
                     .workspace = memory_.workspace.data,
                     .weight_copies = call.weight_copies,
                     .draw = draw};
    // Micro-batches run from last to first.
    call.adds = planned.micro && k + 1 < plan_.repeats(true);
    if (!planned.micro || k == 0) {
      if (planned.is_trained) call.ready = planned.parameters;
      std::ranges::sort(call.ready);
    }
    return call;
  }

  void put_input_pointers(const PlannedCall& planned, std::size_t k, BoundCall& call) {
    call.inputs.resize(planned.inputs.size());
    for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
      const int input = planned.inputs[i];
      if (input == plan_.input) {
        const std::size_t slice = planned.micro ? layout_at(plan_, input, true).bytes : 0;
        program_.input_pointers_.emplace_back(&call.inputs[i], k * slice);
      } else {
        call.inputs[i] = at(input, planned.micro, k);
      }
    }
  }

  void put_parameter_pointers(const PlannedCall& planned, BoundCall& call) {
    for (const std::size_t i : planned.parameters) {
      const std::size_t offset = parameters_.weight_offset(i);
      const auto unit = std::ranges::upper_bound(parameters_.units, i);
      if (unit != parameters_.units.end()) {
        call.unit = static_cast<std::size_t>(unit - parameters_.units.begin());
      }
      call.weights.push_back(memory_.weights.data + offset);
      if (const DataType type = planned.op->plan().weight_type; type != DataType::fp32) {
        call.weight_copies.push_back(memory_.weight_copies.data +
                                     offset / sizeof(float) * size_of(type));
      }
      if (planned.direction == Direction::backward) {
        const bool trained = i < parameters_.parameters.size();
        call.grad_parameters.push_back(
            trained ? memory_.gradients.data + parameters_.gradient_offsets[i] : nullptr);
      }
    }
    for (const std::size_t i : planned.state) {
      call.state.push_back(memory_.state.data + parameters_.state[i].offset_bytes);
    }
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
  for (const auto& [pointer, offset] : input_pointers_) *pointer = bytes + offset;
  for (BoundCall& call : forward_) {
    call.forward.mode = mode;
    call.forward.draw.places = places;
    run(call, true, stream);
  }
  for (BoundCall& call : backward_) call.backward.draw.places = places;
}

void Program::run(BoundCall& call, bool forward, Stream& stream) {
  if (store_ != nullptr && call.unit && store_->use(*call.unit, forward, stream) &&
      !unit_casts_.empty()) {
    const BoundCall& cast = unit_casts_[*call.unit];
    cast.op->forward(stream, cast.forward);
  }
  if (observer_ != nullptr) observer_->begin_call(call.number, stream);
  if (call.direction == Direction::forward) call.op->forward(stream, call.forward);
  if (call.direction == Direction::recompute) call.op->recompute(stream, call.forward);
  if (call.direction == Direction::backward) call.op->backward(stream, call.backward);
  if (observer_ != nullptr) observer_->end_call(call.number, stream);
}

void Program::backward(Stream& stream, const GradientReady& ready, bool accumulate) {
  for (BoundCall& call : backward_) {
    call.backward.accumulate = accumulate || call.adds;
    run(call, false, stream);
    if (!ready) continue;
    for (const std::size_t parameter : call.ready) ready(parameter);
  }
}

}  // namespace ddpbench::nn
