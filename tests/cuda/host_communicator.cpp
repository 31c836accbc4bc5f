// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/host_communicator.h"

#include <list>
#include <vector>

#include "base/error.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::comm::testing {

namespace {

// Host memory and its copy on the device.
struct Shadow {
  BufferView host;
  BufferView on_device;
  Elements of(Elements elements) const {
    elements.data = on_device.data + (static_cast<std::byte*>(elements.data) - host.data);
    return elements;
  }
};

class HostWork final : public WorkState {
 public:
  HostWork(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  // The copies back, and the memory to keep until then.
  std::vector<std::pair<BufferView, BufferView>> results;
  std::vector<Buffer> buffers;
  Work inner;

  void wait(Stream&) override { throw InternalError("a work of host memory knows no stream"); }
  void synchronize(std::optional<Deadline> deadline) override {
    inner.synchronize(deadline);
    finish();
  }
  WorkTimes times() const override { return inner.times(); }
  bool is_done() override { return inner.is_done(); }

 private:
  void finish() {
    for (const auto& [to, from] : results) device_.copy(stream_, to, from);
    results.clear();
    stream_.synchronize();
  }

  Device& device_;
  Stream& stream_;
};

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(Communicator& inner, Device& device)
      : Communicator(inner.rank(), inner.size()),
        inner_(inner),
        device_(device),
        stream_(device.make_stream()) {}

  std::string backend() const override { return inner_.backend(); }
  double timeout_s() const noexcept override { return inner_.timeout_s(); }
  void group_start() override { inner_.group_start(); }
  void group_end() override { inner_.group_end(); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void check() override { inner_.check(); }

  void register_buffer(const Buffer& buffer) override {
    registered_.push_back(
        {buffer.view(), device_.allocate(buffer.bytes(), kCategory, Sharing::mappable)});
    inner_.register_buffer(registered_.back().on_device);
  }
  void deregister_buffer(const Buffer& buffer) override {
    registered_.remove_if([&](const Registered& r) {
      if (r.host.data != buffer.data()) return false;
      inner_.deregister_buffer(r.on_device);
      return true;
    });
  }

 private:
  static constexpr MemoryCategory kCategory = MemoryCategory::communication;

  struct Registered {
    BufferView host;
    Buffer on_device;
  };

  Work issue(const Operation& operation, const CallOptions&) override {
    auto work = std::make_shared<HostWork>(device_, *stream_);
    // One operand may lie within the other.
    const BufferView in = operation.in.view(), out = operation.out.view();
    const bool out_inside = out.bytes > 0 && in.contains(out);
    const bool in_inside = !out_inside && in.bytes > 0 && out.contains(in);
    const Shadow shadow_in = shadow(in_inside ? out : in, *work);
    const Shadow shadow_out = out_inside || in_inside ? shadow_in : shadow(out, *work);
    Operation on_device = operation;
    on_device.in = shadow_in.of(operation.in);
    on_device.out = shadow_out.of(operation.out);
    const bool in_place = operation.kind != OperationKind::send;
    for (const BufferView result : {in_place ? in : BufferView{}, out}) {
      if (result.bytes == 0) continue;
      const Shadow& from = result.data == out.data ? shadow_out : shadow_in;
      work->results.emplace_back(
          result, BufferView{from.on_device.data + (result.data - from.host.data), result.bytes});
    }
    stream_->synchronize();
    work->inner = inner_.issue(on_device, {.after = stream_.get()});
    return Work(work);
  }

  Shadow shadow(BufferView host, HostWork& work) {
    if (host.bytes == 0) return {host, host};
    Shadow made{host, {}};
    for (const Registered& r : registered_) {
      if (r.host.contains(host)) {
        made.on_device =
            r.on_device.view().slice(static_cast<std::size_t>(host.data - r.host.data), host.bytes);
      }
    }
    if (made.on_device.data == nullptr) {
      work.buffers.push_back(device_.allocate(host.bytes, kCategory));
      made.on_device = work.buffers.back().view().slice(0, host.bytes);
    }
    device_.copy(*stream_, made.on_device, host);
    return made;
  }

  Communicator& inner_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::list<Registered> registered_;
};

}  // namespace

std::unique_ptr<Communicator> make_host_communicator(Communicator& inner, Device& device) {
  return std::make_unique<HostCommunicator>(inner, device);
}

}  // namespace ddpbench::comm::testing
