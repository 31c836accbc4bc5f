// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/fake_device.h"

namespace ddpbench::test {
namespace {

class FakeEvent : public Event {
 public:
  bool reached() const override { return true; }
  double time_s() const override { return time; }
  double time = 0;
};

class FakeStream : public Stream {
 public:
  explicit FakeStream(FakeDevice& device) : device_(device) {}
  Device& device() const noexcept override { return device_; }
  void record(Event& event) override {
    static_cast<FakeEvent&>(event).time = device_.clock_s;
    device_.pass(device_.record_cost_s);
  }
  void wait(const Event&) override {}
  void synchronize() override {}

 private:
  FakeDevice& device_;
};

}  // namespace

std::unique_ptr<Stream> FakeDevice::make_stream() { return std::make_unique<FakeStream>(*this); }
std::unique_ptr<Event> FakeDevice::make_event() { return std::make_unique<FakeEvent>(); }

}  // namespace ddpbench::test
