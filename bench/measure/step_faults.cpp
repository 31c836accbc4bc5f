// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/step_faults.h"

#include <signal.h>
#include <unistd.h>

#include "base/error.h"

namespace ddpbench::bench {

StepFaults::StepFaults(Device& device, std::vector<Injection> injections, PhaseObserver& inner)
    : device_(device), injections_(std::move(injections)), inner_(inner) {}

void StepFaults::begin_step() {
  ++step_;
  for (const Injection& injection : injections_) {
    if (injection.step != step_) continue;
    if (injection.kind == "kill") ::kill(::getpid(), SIGKILL);
    if (injection.kind == "stop") ::kill(::getpid(), SIGSTOP);
    if (injection.kind == "throw") {
      throw InternalError(fmt::format("planted by --inject={}", injection.text));
    }
  }
}

void StepFaults::begin(Phase phase, Stream& stream) {
  inner_.begin(phase, stream);
  if (phase == Phase::data_wait) {
    wait_begin_s_ = device_.now_s();
  } else if (is_slowed(phase)) {
    auto& event = begun_[static_cast<std::size_t>(phase)];
    if (!event) event = device_.make_event();
    stream.record(*event);
  }
}

void StepFaults::end(Phase phase, Stream& stream) {
  if (is_slowed(phase)) {
    double begin_s = wait_begin_s_;
    if (phase != Phase::data_wait) {
      stream.synchronize();
      begin_s = begun_[static_cast<std::size_t>(phase)]->time_s();
    }
    const double until_s = device_.now_s() + stretch_s(phase, device_.now_s() - begin_s);
    while (device_.now_s() < until_s) {
    }
  }
  inner_.end(phase, stream);
}

double StepFaults::stretch_s(Phase phase, double length_s) const {
  double sum_s = 0;
  for (const Injection& injection : injections_) {
    if (injection.kind != "slow" || injection.phase != to_string(phase)) continue;
    if (injection.step >= 0 && injection.step != step_) continue;
    sum_s += length_s * injection.percent / 100 + injection.ms * 1e-3;
  }
  return sum_s;
}

}  // namespace ddpbench::bench
