// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/shm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/operation_communicator.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/shm/collectives/collectives.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/comm/shm/peers/shared_part.h"
#include "parallel/comm/shm/shm_engine.h"

namespace ddpbench::comm {

namespace {

// A short text, such as a handle of shared memory, as plain bytes that an all-gather can carry.
using PlainText = std::array<char, 120>;

PlainText to_plain(const std::string& text) {
  PlainText plain{};
  ensure(text.size() < plain.size(), "the text '{}' is too long", text);
  std::copy(text.begin(), text.end(), plain.begin());
  return plain;
}

// Issues operations to an executor, registers memory and splits communicators.
class ShmCommunicator : public OperationCommunicator {
 public:
  // This rank's end of `block`.
  ShmCommunicator(std::shared_ptr<ControlBlock> block, int rank, const ShmOptions& options);
  ~ShmCommunicator() override;
  // Waits until all ranks have come (CommTimeout). To be called once, before anything else.
  void await_peers() { engine_->peers().await_attached(timeout_s(), options_.check); }

  std::string backend() const override { return "shm"; }
  double timeout_s() const noexcept override { return options_.timeout_s; }
  std::vector<AllReduceAlgorithm> all_reduces_run() const override {
    return engine_->all_reduces_run();
  }

  std::vector<Traffic> taken() override;

  void group_start() override { executor_->group_start(); }
  void group_end() override { executor_->group_end(); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer& buffer) override;
  void deregister_buffer(const Buffer& buffer) override;
  void abort(const std::string& reason) noexcept override { executor_->abort(reason); }
  void check() override { engine_->peers().check_all(); }

 private:
  Work issue(const Operation& operation, const CallOptions& options) override;
  // A blocking all-gather of one short text a rank.
  std::vector<std::string> exchange(const std::string& own);

  const ShmOptions options_;
  ShmEngine* engine_;                   // owned by the executor
  std::shared_ptr<Executor> executor_;  // works in flight own it, too
  int splits_ = 0;
};

ShmCommunicator::ShmCommunicator(std::shared_ptr<ControlBlock> block, int rank,
                                 const ShmOptions& options)
    : OperationCommunicator(rank, block->size()), options_(options) {
  auto engine = std::make_unique<ShmEngine>(std::move(block), rank, options.all_reduce);
  engine_ = engine.get();
  executor_ = std::make_shared<Executor>(
      std::move(engine),
      ExecutorOptions{options.timeout_s, options.thread_cores, options.progress, options.watch});
}

ShmCommunicator::~ShmCommunicator() { executor_->shut_down(); }

Work ShmCommunicator::issue(const Operation& operation, const CallOptions& options) {
  // A CPU stream runs inline: what is queued there now is done.
  ensure(!options.after || options.after->device().kind() == DeviceKind::cpu,
         "the shm backend runs after streams of CPU devices");
  return Work(executor_->issue(operation, options.start));
}

std::vector<std::string> ShmCommunicator::exchange(const std::string& own) {
  PlainText mine = to_plain(own);
  std::vector<PlainText> all(static_cast<std::size_t>(size()));
  all_gather({&mine, sizeof(PlainText), DataType::uint8},
             {all.data(), sizeof(PlainText) * all.size(), DataType::uint8},
             {.after = nullptr, .start = Start::deferred})
      .synchronize();
  std::vector<std::string> texts;
  for (const PlainText& text : all) texts.emplace_back(text.data());
  return texts;
}

std::vector<Traffic> ShmCommunicator::taken() {
  std::vector<Traffic> taken;
  executor_->while_idle([&] { taken = engine_->taken(); });
  return taken;
}

void ShmCommunicator::register_buffer(const Buffer& buffer) {
  if (engine_->peers().block().scope() == FutexScope::process) return;  // all is readable
  const std::string handle = buffer.export_handle();
  ensure(buffer.bytes() == 0 || !handle.empty(),
         "a buffer of {} bytes that peers cannot map was to be registered", buffer.bytes());
  const std::vector<std::string> handles = exchange(handle);
  executor_->while_idle([&] { engine_->memory().add(buffer.view(), handles); });
  exchange("");  // this rank may free or change its descriptor only when all have mapped it
}

void ShmCommunicator::deregister_buffer(const Buffer& buffer) {
  if (engine_->peers().block().scope() == FutexScope::process) return;
  executor_->while_idle([&] { engine_->memory().remove(buffer.view()); });
}

std::unique_ptr<Communicator> ShmCommunicator::split(int color, int key) {
  const auto exchange_texts = [this](const std::string& text) { return exchange(text); };
  ShmOptions options = options_;
  options.name = fmt::format("{}/split{}.{}", options.name, splits_++, color);
  options.watch = nullptr;
  const SplitPart part = choose_part(rank(), color, key, exchange_texts);
  auto block = share_in_part<ControlBlock>(part, options.name, engine_->peers().block().scope(),
                                           exchange_texts);
  if (!block) return nullptr;
  auto result = std::make_unique<ShmCommunicator>(std::move(block), part.rank, options);
  result->await_peers();
  return result;
}

}  // namespace

AllReduceAlgorithm automatic_shm_all_reduce(int ranks, std::size_t bytes) {
  return is_small(OperationKind::all_reduce, bytes, ranks) ? AllReduceAlgorithm::direct
                                                           : automatic_all_reduce(ranks);
}

// How processes of one host meet: rank 0 makes the control block and publishes its handle in the
// store, beside a mark of its host and PID namespace; the others open it.
std::unique_ptr<Communicator> make_shm(Store& store, int rank, int size,
                                       const ShmOptions& options) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  const std::string key = options.name + "/control";
  std::shared_ptr<ControlBlock> block;
  if (rank == 0) {
    block = ControlBlock::create(options.name, size, FutexScope::host);
    if (size > 1) store.set(key, host_mark() + "\n" + block->handle());
  } else {
    const std::string published = store.get(key, options.timeout_s);
    const std::size_t newline = published.find('\n');
    if (newline == std::string::npos || published.substr(0, newline) != host_mark()) {
      throw CommError(fmt::format(
          "rank {} of {} is on another host, or in another PID namespace, than rank 0; the shm "
          "backend connects processes of one host",
          rank, size));
    }
    block = ControlBlock::open(published.substr(newline + 1), size);
  }
  auto communicator = std::make_unique<ShmCommunicator>(std::move(block), rank, options);
  communicator->await_peers();
  return communicator;
}

// The threads of one process share a control block, and every address is readable.
std::vector<std::unique_ptr<Communicator>> make_thread_shm(int size, const ShmOptions& options) {
  ensure(size >= 1, "a communicator of {} threads", size);
  const auto block = ControlBlock::create(options.name, size, FutexScope::process);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<ShmCommunicator>(block, rank, options));
  }
  return communicators;
}

}  // namespace ddpbench::comm
