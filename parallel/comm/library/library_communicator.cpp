// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/library/library_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/operation_communicator.h"
#include "parallel/comm/queue/executor.h"

namespace ddpbench::comm {

namespace {

// The longest sleep in a wait for the store, between two calls of EngineOptions::check.
constexpr double kStoreLook_s = 0.1;

class LibraryCommunicator final : public OperationCommunicator {
 public:
  LibraryCommunicator(std::string backend, std::unique_ptr<LibraryEngine> engine,
                      const EngineOptions& options)
      : OperationCommunicator(engine->rank(), engine->size()),
        backend_(std::move(backend)),
        options_(options),
        engine_(engine.get()),
        executor_(std::make_shared<Executor>(
            std::move(engine), ExecutorOptions{options.timeout_s, options.thread_cores,
                                               options.progress, options.watch})) {}
  ~LibraryCommunicator() override { executor_->shut_down(); }

  std::string backend() const override { return backend_; }
  double timeout_s() const noexcept override { return options_.timeout_s; }
  void group_start() override { executor_->group_start(); }
  void group_end() override { executor_->group_end(); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer&) override {}
  void deregister_buffer(const Buffer&) override {}
  void abort(const std::string& reason) noexcept override { executor_->abort(reason); }
  void check() override { engine_->throw_if_aborted(nullptr); }

 private:
  Work issue(const Operation& operation, const CallOptions& options) override;
  // A blocking all-gather of `count` bytes a rank.
  void gather_bytes(const void* own, std::size_t count, void* all);
  // The same of texts of any length, [rank].
  std::vector<std::string> exchange(const std::string& own);

  const std::string backend_;
  const EngineOptions options_;
  LibraryEngine* const engine_;               // owned by the executor
  const std::shared_ptr<Executor> executor_;  // works in flight own it, too
};

Work LibraryCommunicator::issue(const Operation& operation, const CallOptions& options) {
  // A CPU stream runs inline: what is queued there now is done.
  ensure(!options.after || options.after->device().kind() == DeviceKind::cpu,
         "the backend {} runs after streams of CPU devices", backend_);
  return Work(executor_->issue(operation, options.start));
}

void LibraryCommunicator::gather_bytes(const void* own, std::size_t count, void* all) {
  all_gather({const_cast<void*>(own), count, DataType::uint8},
             {all, count * static_cast<std::size_t>(size()), DataType::uint8},
             {.after = nullptr, .start = Start::deferred})
      .synchronize();
}

std::vector<std::string> LibraryCommunicator::exchange(const std::string& own) {
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size()));
  const std::uint64_t length = own.size();
  gather_bytes(&length, sizeof length, lengths.data());
  const std::size_t longest = std::ranges::max(lengths);
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * lengths.size(), '\0');
  gather_bytes(padded.data(), longest, all.data());
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.push_back(all.substr(rank * longest, lengths[rank]));
  }
  return texts;
}

std::unique_ptr<Communicator> LibraryCommunicator::split(int color, int key) {
  const TextExchange among_all = [this](const std::string& text) { return exchange(text); };
  const SplitPart part = choose_part(rank(), color, key, among_all);
  if (part.size() == 0) {
    among_all("");  // the others connect meanwhile
    return nullptr;
  }
  EngineOptions options = options_;
  options.watch = nullptr;
  return make_library_communicator(backend_, engine_->split(part, among_all), options);
}

}  // namespace

SplitPart whole_world(int rank, int size) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  SplitPart all{std::vector<int>(static_cast<std::size_t>(size)), rank};
  std::iota(all.members.begin(), all.members.end(), 0);
  return all;
}

TextExchange exchange_in(Store& store, int rank, int size, const EngineOptions& options) {
  return [&store, rank, size, &options](const std::string& text) {
    const auto key = [&](int of) { return fmt::format("{}/exchange/{}", options.name, of); };
    store.set(key(rank), text);
    const Deadline deadline = deadline_after(options.timeout_s);
    std::vector<std::string> texts;
    while (static_cast<int>(texts.size()) < size) {
      const int peer = static_cast<int>(texts.size());
      try {
        texts.push_back(store.get(key(peer), std::min(kStoreLook_s, options.timeout_s)));
        continue;
      } catch (const CommTimeout&) {
        if (has_passed(deadline)) {
          throw CommTimeout(
              fmt::format("rank {} did not join within {} s", peer, options.timeout_s));
        }
      }
      if (options.check) options.check();
    }
    return texts;
  };
}

std::unique_ptr<Communicator> make_library_communicator(const std::string& backend,
                                                        std::unique_ptr<LibraryEngine> engine,
                                                        const EngineOptions& options) {
  return std::make_unique<LibraryCommunicator>(backend, std::move(engine), options);
}

}  // namespace ddpbench::comm
