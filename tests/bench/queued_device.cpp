// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/queued_device.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace ddpbench::test {
class QueuedEvent final : public Event {
 public:
  explicit QueuedEvent(QueuedDevice& device) : device_(device) {}
  // Looking takes time, in which the device goes on.
  bool reached() const override {
    device_.run_one();
    return recorded_ > 0 && done_ == recorded_;
  }
  double time_s() const override { return time_s_; }

  QueuedDevice& device_;
  int recorded_ = 0, done_ = 0;
  double time_s_ = 0;
};

class QueuedStream final : public Stream {
 public:
  // A piece of work, and the condition under which it can start.
  struct Piece {
    std::function<bool()> ready;
    std::function<void()> work;
  };

  explicit QueuedStream(QueuedDevice& device) : device_(device) {
    device_.streams_.push_back(this);
  }
  ~QueuedStream() override { std::erase(device_.streams_, this); }
  Device& device() const noexcept override { return device_; }

  void record(Event& event) override {
    auto* const queued = &static_cast<QueuedEvent&>(event);
    // Each replay of a recording reaches its events once more.
    const bool replayed = recording_ != nullptr;
    add({{}, [this, queued, replayed, number = ++queued->recorded_] {
           queued->done_ = replayed ? queued->recorded_ : number;
           queued->time_s_ = device_.clock_s;
         }});
  }
  void wait(const Event& event) override {
    const auto* const queued = &static_cast<const QueuedEvent&>(event);
    add({[queued, number = queued->recorded_] { return queued->done_ >= number; }, {}});
  }
  void synchronize() override {
    if (recording_) throw std::logic_error("the host waits for a stream that records");
    while (!queue_.empty()) {
      if (!device_.run_one()) throw std::logic_error("streams wait for each other for ever");
    }
  }
  bool can_record() const noexcept override { return true; }
  void begin_recording() override { recording_ = std::make_unique<std::vector<Piece>>(); }
  std::unique_ptr<Recording> end_recording() override;

  void add(Piece piece) {
    device_.clock_s += device_.host_call_s;
    if (recording_) {
      recording_->push_back(std::move(piece));
    } else {
      queue_.push_back(std::move(piece));
    }
  }

  bool can_go_on() const {
    return !queue_.empty() && (!queue_.front().ready || queue_.front().ready());
  }
  void run_front() {
    const Piece piece = std::move(queue_.front());
    queue_.pop_front();
    if (!piece.work) return;
    piece.work();
  }

 private:
  QueuedDevice& device_;
  std::deque<Piece> queue_;
  std::unique_ptr<std::vector<Piece>> recording_;
};

namespace {

class QueuedRecording final : public Recording {
 public:
  explicit QueuedRecording(std::vector<QueuedStream::Piece> pieces) : pieces_(std::move(pieces)) {}
  void replay(Stream& stream) override {
    for (const auto& piece : pieces_) static_cast<QueuedStream&>(stream).add(piece);
  }

 private:
  std::vector<QueuedStream::Piece> pieces_;
};

}  // namespace

std::unique_ptr<Recording> QueuedStream::end_recording() {
  auto pieces = std::move(*recording_);
  recording_.reset();
  return std::make_unique<QueuedRecording>(std::move(pieces));
}

Buffer QueuedDevice::allocate(std::size_t bytes, MemoryCategory, Sharing) {
  return allocate_staging(bytes);
}

Buffer QueuedDevice::allocate_staging(std::size_t bytes) {
  const auto memory = std::make_shared<std::vector<std::byte>>(std::max<std::size_t>(bytes, 1));
  return {{memory->data(), bytes}, memory};
}

std::unique_ptr<Stream> QueuedDevice::make_stream() {
  return std::make_unique<QueuedStream>(*this);
}

std::unique_ptr<Event> QueuedDevice::make_event() { return std::make_unique<QueuedEvent>(*this); }

void QueuedDevice::copy(Stream& stream, BufferView dst, BufferView src) {
  queue_work(stream, [this, dst, src] { std::memcpy(dst.data, src.data, src.bytes); });
}

bool QueuedDevice::run_one() {
  std::vector<QueuedStream*> able;
  for (QueuedStream* stream : streams_) {
    if (stream->can_go_on()) able.push_back(stream);
  }
  if (able.empty()) return false;
  able[random_() % able.size()]->run_front();
  return true;
}

void queue_work(Stream& stream, std::function<void()> work) {
  auto& queued = static_cast<QueuedStream&>(stream);
  auto& device = static_cast<QueuedDevice&>(queued.device());
  queued.add({{}, [&device, work = std::move(work)] {
                device.clock_s += device.work_s;
                work();
              }});
}

void queue_work_after_nothing(Stream& stream) {
  static_cast<QueuedStream&>(stream).add({[] { return false; }, {}});
}

}  // namespace ddpbench::test
