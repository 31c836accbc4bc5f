// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/wire/wire_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/split.h"
#include "parallel/comm/wire/faulty_link.h"

namespace ddpbench::comm {

namespace {

constexpr std::size_t kSecretBytes = 32;

std::unique_ptr<Communicator> connected(const std::string& backend, Store& store, int rank,
                                        const std::vector<int>& members, const Connect& connect,
                                        const EngineOptions& options);

class WireCommunicator : public OperationCommunicator {
 public:
  WireCommunicator(std::string backend, std::unique_ptr<WireEngine> engine,
                   std::vector<int> members, Connect connect, const EngineOptions& options)
      : OperationCommunicator(engine->board().rank(), engine->board().size()),
        backend_(std::move(backend)),
        members_(std::move(members)),
        connect_(std::move(connect)),
        options_(options),
        engine_(engine.get()),
        executor_(std::make_shared<Executor>(
            std::move(engine), ExecutorOptions{options.timeout_s, options.thread_cores,
                                               options.progress, options.watch})) {}
  ~WireCommunicator() override { executor_->shut_down(); }

  std::string backend() const override { return backend_; }
  double timeout_s() const noexcept override { return options_.timeout_s; }
  std::vector<AllReduceAlgorithm> all_reduces_run() const override {
    return engine_->all_reduces_run();
  }
  std::vector<Traffic> taken() override {
    std::vector<Traffic> taken;
    executor_->while_idle([&] { taken = engine_->taken(); });
    return taken;
  }
  void group_start() override { executor_->group_start(); }
  void group_end() override { executor_->group_end(); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer&) override {}
  void deregister_buffer(const Buffer&) override {}
  void abort(const std::string& reason) noexcept override { executor_->abort(reason); }
  void check() override { engine_->check_peers(); }

 private:
  Work issue(const Operation& operation, const CallOptions& options) override;
  // A blocking all-gather of `count` bytes a rank.
  void gather_bytes(const void* own, std::size_t count, void* all);
  // The same of texts of any length, [rank].
  std::vector<std::string> exchange(const std::string& own);

  const std::string backend_;
  const std::vector<int> members_;  // [rank] its number in the first communicator
  const Connect connect_;
  const EngineOptions options_;
  WireEngine* const engine_;                  // owned by the executor
  const std::shared_ptr<Executor> executor_;  // works in flight own it, too
  int splits_ = 0;
};

Work WireCommunicator::issue(const Operation& operation, const CallOptions& options) {
  // A CPU stream runs inline: what is queued there now is done.
  ensure(!options.after || options.after->device().kind() == DeviceKind::cpu,
         "the backend {} runs after streams of CPU devices", backend_);
  return Work(executor_->issue(operation, options.start));
}

void WireCommunicator::gather_bytes(const void* own, std::size_t count, void* all) {
  all_gather({const_cast<void*>(own), count, DataType::uint8},
             {all, count * static_cast<std::size_t>(size()), DataType::uint8},
             {.after = nullptr, .start = Start::deferred})
      .synchronize();
}

std::vector<std::string> WireCommunicator::exchange(const std::string& own) {
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

// The first member of each part serves a store, through which the part's members meet.
std::unique_ptr<Communicator> WireCommunicator::split(int color, int key) {
  const int number = splits_++;
  const SplitPart part =
      choose_part(rank(), color, key, [this](const auto& t) { return exchange(t); });
  TcpStoreOptions meeting;
  meeting.host = options_.address;
  meeting.timeout_s = options_.timeout_s;
  std::unique_ptr<TcpStoreServer> server;
  std::string offer;
  if (part.leads()) {
    meeting.secret = random_hex(kSecretBytes);
    server = make_tcp_store_server(meeting);
    offer = fmt::format("{} {} {}", server->port(), meeting.secret, meeting.host);
  }
  const std::vector<std::string> offers = exchange(offer);
  std::unique_ptr<Communicator> result;
  if (part.size() > 0) {
    std::istringstream(offers[static_cast<std::size_t>(part.members.front())]) >> meeting.port >>
        meeting.secret >> meeting.host;
    const auto store = connect_tcp_store(meeting);
    EngineOptions options = options_;
    options.name = fmt::format("{}/split{}.{}", options.name, number, color);
    // The links of a part break with those of the whole.
    if (options.watch != nullptr) options.link_watch = std::exchange(options.watch, nullptr);
    std::vector<int> numbers;
    for (const int member : part.members) {
      numbers.push_back(members_[static_cast<std::size_t>(member)]);
    }
    result = connected(backend_, *store, part.rank, numbers, connect_, options);
  }
  exchange("");  // the stores are needed until all have met
  return result;
}

std::unique_ptr<Communicator> connected(const std::string& backend, Store& store, int rank,
                                        const std::vector<int>& members, const Connect& connect,
                                        const EngineOptions& options) {
  std::unique_ptr<WireLink> link;
  if (members.size() > 1) link = connect(store, rank, members, options);
  CallWatch* const watch = options.link_watch != nullptr ? options.link_watch : options.watch;
  if (link && watch != nullptr && watch->breaks_link()) {
    link = std::make_unique<FaultyLink>(std::move(link), *watch);
  }
  auto engine = std::make_unique<WireEngine>(rank, static_cast<int>(members.size()),
                                             std::move(link), options.all_reduce);
  return std::make_unique<WireCommunicator>(backend, std::move(engine), members, connect, options);
}

}  // namespace

std::unique_ptr<Communicator> make_wire_communicator(const std::string& backend, Store& store,
                                                     int rank, int size, const Connect& connect,
                                                     const EngineOptions& options) {
  ensure(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return connected(backend, store, rank, members, connect, options);
}

}  // namespace ddpbench::comm
