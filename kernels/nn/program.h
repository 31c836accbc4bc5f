// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A plan bound to memory: every call of every operation with all its pointers, ready to run.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nn/plan/parameter_plan.h"
#include "kernels/nn/plan/plan.h"

namespace ddpbench::nn {

// What a pass over a network reports while it queues its work: the operations that run, as
// PhaseObserver reports phases, and the gradients that are complete.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  // Called around every operation that a pass queues, one after the other on `stream`, on the
  // thread that runs the pass. `call` is an index of Graph::call_names().
  virtual void begin_call(std::size_t call, Stream& stream) = 0;
  virtual void end_call(std::size_t call, Stream& stream) = 0;
};

// Brings the weights of a unit (ParameterPlan::units) before calls that read them.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // Called before each such call, whose pass is a forward or backward one, on its thread. Returns
  // whether the unit comes now, and was not that of the call before.
  virtual bool use(std::size_t unit, bool forward, Stream& stream) = 0;
  // What it keeps of a range of flat weights within a unit, and where that lies; may be empty.
  struct Kept {
    BufferView memory;
    std::size_t offset = 0;
  };
  virtual Kept kept(std::size_t offset, std::size_t bytes) const = 0;
  // Sets that of the range that begins at `offset`, and waits for it.
  virtual void put(std::size_t offset, const BufferView& values) = 0;
};

// Called when the work that makes a parameter's final gradient is queued: once for each parameter
// and backward pass, in parameter index order as far as the network is a chain.
using GradientReady = std::function<void(std::size_t parameter)>;

// The memory that a plan runs in.
struct ProgramMemory {
  BufferView arena;                     // plan.arena_bytes
  BufferView workspace;                 // plan.workspace_bytes
  BufferView weights;                   // flat
  BufferView gradients;                 // flat; empty for a plan without backward
  BufferView weight_copies;             // flat; empty where nothing reads them
  BufferView state;                     // flat; empty where no operation has any
  const std::int64_t* steps = nullptr;  // training steps so far; null where no operation draws
};

class Program {
 public:
  // `plan` is read during construction only; its operations must outlive the program.
  Program(const Plan& plan, const ParameterPlan& parameters, const ProgramMemory& memory);

  // Forward's calls, then backward's (Graph::call_names).
  const std::vector<std::string>& call_names() const { return call_names_; }
  void observe(LayerObserver* observer) { observer_ = observer; }
  void use(WeightStore* store) { store_ = store; }

  void forward(Stream& stream, const float* input, ops::Mode mode, const ops::SamplePlaces& places);
  void backward(Stream& stream, const GradientReady& ready, bool accumulate);

 private:
  struct BoundCall {
    ops::Op* op = nullptr;
    Direction direction = Direction::forward;
    bool adds = false;  // an earlier micro-batch wrote the parameters' gradients
    ops::ForwardArgs forward = {};
    ops::BackwardArgs backward = {};
    // What these refer to.
    std::vector<const void*> inputs = {}, weights = {}, weight_copies = {};
    std::vector<void*> grad_inputs = {}, grad_parameters = {}, state = {};
    std::vector<std::size_t> ready = {};   // parameters whose gradients are final after the call
    std::size_t number = 0;                // in call_names_
    std::optional<std::size_t> unit = {};  // whose weights it reads
  };
  class Binder;

  void run(BoundCall& call, bool forward, Stream& stream);

  std::vector<BoundCall> forward_;
  std::vector<BoundCall> backward_;
  std::vector<BoundCall> unit_casts_;  // [unit], where operations read copies of weights
  std::vector<std::string> call_names_;
  LayerObserver* observer_ = nullptr;
  WeightStore* store_ = nullptr;
  // Where calls have addresses in the network's input, and their byte offsets in it.
  std::vector<std::pair<const void**, std::size_t>> input_pointers_;
};

}  // namespace ddpbench::nn
