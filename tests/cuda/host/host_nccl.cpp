// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL's stand-in. The calls between ncclGroupStart and ncclGroupEnd run in the stream's turn on
// shared memory. Ranks meet at a store whose port and secret are the unique id.
//
// As in NCCL, ranks connect when the communicator is made only with NCCL_RUNTIME_CONNECT=0. Else
// the end of the first group with a collective returns when all ranks have called one. It hangs
// when a rank does not, unless the communicator is aborted.
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/comm_module.h"
#include "parallel/comm/store/store.h"
#include "tests/cuda/host/host_memory.h"
#include "tests/cuda/host/host_stream.h"

namespace comm = ddpbench::comm;

namespace {

struct Issue {
  std::function<comm::Work(comm::Communicator&)> start;
  void* reduced = nullptr;  // the result of an all-reduce of several elements
  bool connects = true;     // all ranks call it
};

constexpr comm::CallOptions kDeferred{.after = nullptr, .start = comm::Start::deferred};
constexpr double kPatience_s = 60;

// One rank of one communicator. It lives until its last call has run.
class Member {
 public:
  // Ranks connect through `connection`; null when they are connected.
  Member(std::unique_ptr<comm::Communicator> ranks, std::unique_ptr<comm::Communicator> connection)
      : ranks_(std::move(ranks)), connection_(std::move(connection)) {}

  comm::Communicator& ranks() { return *ranks_; }
  bool is_idle() const { return queued_ == 0; }
  void queued() { ++queued_; }

  void run(const std::vector<Issue>& issues) {
    try {
      std::vector<comm::Work> works;
      ranks_->group_start();
      for (const Issue& issue : issues) works.push_back(issue.start(*ranks_));
      ranks_->group_end();
      for (const comm::Work& work : works) work.synchronize();
      for (const Issue& issue : issues) spoil(issue);
    } catch (const ddpbench::Error& error) {
      hang(error.what());
    }
    --queued_;
  }
  // On the calling thread. False when aborted.
  bool connect() {
    if (connection_ == nullptr || connected_) return true;
    try {
      connection_->barrier().synchronize();
      connected_ = true;
    } catch (const ddpbench::Error&) {
      // NCCL's sockets wait for a dead rank as they do for a late one.
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::duration<double>(kPatience_s),
                        [this] { return aborted_; });
    }
    return connected_;
  }
  void abort() {
    ranks_->abort("ncclCommAbort");
    if (connection_ != nullptr) connection_->abort("ncclCommAbort");
    {
      const std::lock_guard lock(mutex_);
      aborted_ = true;
    }
    changed_.notify_all();
  }
  std::string error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  // STAND_IN_WRONG_RANK gets the first element of its all-reduces wrong.
  void spoil(const Issue& issue) const {
    const char* const wrong = std::getenv("STAND_IN_WRONG_RANK");
    if (issue.reduced == nullptr || wrong == nullptr) return;
    if (std::atoi(wrong) == ranks_->rank()) *static_cast<unsigned char*>(issue.reduced) ^= 1;
  }
  // Waits until it is aborted, as NCCL's kernels do on the device.
  void hang(const std::string& why) {
    std::unique_lock lock(mutex_);
    error_ = why;
    changed_.wait(lock, [this] { return aborted_; });
  }

  const std::unique_ptr<comm::Communicator> ranks_, connection_;
  bool connected_ = false;
  std::atomic<int> queued_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string error_;
  bool aborted_ = false;
};

struct Call {
  std::shared_ptr<Member> member;
  cudaStream_t stream;
  Issue issue;
};

// The part of an id that is used.
struct Id {
  int port;
  char secret[32];
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

thread_local int group_depth = 0;
thread_local std::vector<Call> group_calls;
thread_local std::string last_error;

ncclResult_t failed(const std::string& what, ncclResult_t result) {
  last_error = what;
  return result;
}

ddpbench::DataType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return ddpbench::DataType::fp64;
    case ncclBfloat16:
      return ddpbench::DataType::bf16;
    case ncclFloat16:
      return ddpbench::DataType::fp16;
    case ncclInt32:
      return ddpbench::DataType::int32;
    case ncclInt64:
      return ddpbench::DataType::int64;
    case ncclUint8:
      return ddpbench::DataType::uint8;
    default:
      return ddpbench::DataType::fp32;
  }
}

comm::ReduceOp op_of(ncclRedOp_t op) {
  return op == ncclAvg   ? comm::ReduceOp::average
         : op == ncclMax ? comm::ReduceOp::maximum
                         : comm::ReduceOp::sum;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Member> member;
};

namespace {

// Threads inside a call. A program must not end before they return: they would use NCCL's static
// objects after their destruction. Here such an end always aborts.
class Inside {
 public:
  ~Inside() {
    if (threads_ > 0) std::abort();
  }
  void enter() { ++threads_; }
  void leave() { --threads_; }
  void wait() const {
    while (threads_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::atomic<int> threads_ = 0;
} inside;

// When STAND_IN_NCCL_JOIN_HANGS is set, communicators are never complete.
void hang_if_asked() {
  while (std::getenv("STAND_IN_NCCL_JOIN_HANGS") != nullptr) ::pause();
}

}  // namespace

void ddpbench::test::wait_for_nccl() { inside.wait(); }

namespace {

// The stand-in's devices are on one host, so shared memory connects them all.
ncclResult_t join(ncclComm_t* made, int size, const ncclUniqueId& its_id, int rank) {
  Id id{};
  std::memcpy(&id, its_id.internal, sizeof(id));
  try {
    const auto store = comm::connect_tcp_store({.port = id.port, .secret = id.secret});
    ddpbench::WorldOptions options;
    options.timeout_s = kPatience_s;
    options.name = "nccl";
    auto ranks = comm::make_shm(*store, rank, size, options);
    const char* const at_runtime = std::getenv("NCCL_RUNTIME_CONNECT");
    std::unique_ptr<comm::Communicator> connection;
    if (at_runtime == nullptr || std::atoi(at_runtime) != 0) {
      options.name = "nccl-connection";
      connection = comm::make_shm(*store, rank, size, options);
    }
    *made = new ncclComm{std::make_shared<Member>(std::move(ranks), std::move(connection))};
    return ncclSuccess;
  } catch (const ddpbench::Error& error) {
    return failed(error.what(), ncclSystemError);
  }
}

// Calls of one group on one communicator progress together.
ncclResult_t queue_calls(std::vector<Call> calls) {
  while (!calls.empty()) {
    const std::shared_ptr<Member> member = calls.front().member;
    const cudaStream_t stream = calls.front().stream;
    std::vector<Issue> issues;
    bool connects = false;
    std::erase_if(calls, [&](Call& call) {
      const bool is_its = call.member == member;
      if (is_its) connects = connects || call.issue.connects;
      if (is_its) issues.push_back(std::move(call.issue));
      return is_its;
    });
    if (connects && !member->connect()) return failed("aborted", ncclInternalError);
    const auto run = [member, issues = std::move(issues)] { member->run(issues); };
    if (stream->capture) {
      ddpbench::test::capture(stream, [member, run] {
        member->queued();
        return run;
      });
    } else {
      member->queued();
      ddpbench::test::queue(stream, run);
    }
  }
  return ncclSuccess;
}

ncclResult_t call(ncclComm_t communicator, cudaStream_t stream, Issue issue) {
  group_calls.push_back({communicator->member, stream, std::move(issue)});
  return group_depth > 0 ? ncclSuccess : queue_calls(std::exchange(group_calls, {}));
}

comm::Elements elements(const void* data, std::size_t count, ncclDataType_t type) {
  return {const_cast<void*>(data), count, type_of(type)};
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }
const char* ncclGetLastError(ncclComm_t communicator) {
  if (communicator != nullptr) last_error = communicator->member->error();
  return last_error.c_str();
}

// The store serves until the program ends.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<comm::TcpStoreServer>> servers;
  Id made{};
  fmt::format_to_n(made.secret, sizeof(made.secret) - 1, "stand-in {}",
                   reinterpret_cast<std::uintptr_t>(id));
  const std::lock_guard lock(mutex);
  try {
    servers.push_back(comm::make_tcp_store_server({.secret = made.secret}));
  } catch (const ddpbench::Error& error) {
    return failed(error.what(), ncclSystemError);
  }
  made.port = servers.back()->port();
  *id = {};
  std::memcpy(id->internal, &made, sizeof(made));
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ++group_depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return failed("a group's end without its start", ncclInvalidUsage);
  if (--group_depth > 0) return ncclSuccess;
  return queue_calls(std::exchange(group_calls, {}));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  inside.enter();
  hang_if_asked();
  const ncclResult_t result = join(made, size, id, rank);
  inside.leave();
  return result;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) { return delete communicator, ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->member->abort();
  return delete communicator, ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  *error = communicator->member->error().empty() ? ncclSuccess : ncclRemoteError;
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t, void* data, size_t bytes, void** handle) {
  if (!ddpbench::test::can_be_reached(reinterpret_cast<std::uintptr_t>(data), bytes)) {
    return failed("memory that is not the device's", ncclInvalidArgument);
  }
  return *handle = data, ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  if (in != out) return failed("all-reduce is in place here", ncclInvalidArgument);
  const auto start = [=](comm::Communicator& ranks) {
    return ranks.all_reduce(elements(in, count, type), op_of(op), kDeferred);
  };
  return call(communicator, stream, {start, count > 1 ? out : nullptr});
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  if (in != out) return failed("reduce is in place here", ncclInvalidArgument);
  return call(communicator, stream, {[=](comm::Communicator& ranks) {
                return ranks.reduce(elements(in, count, type), op_of(op), root, kDeferred);
              }});
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (in != out) return failed("broadcast is in place here", ncclInvalidArgument);
  return call(communicator, stream, {[=](comm::Communicator& ranks) {
                return ranks.broadcast(elements(in, count, type), root, kDeferred);
              }});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream, {[=](comm::Communicator& ranks) {
                const auto size = static_cast<std::size_t>(ranks.size());
                return ranks.all_gather(elements(in, count, type),
                                        elements(out, count * size, type), kDeferred);
              }});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream, {[=](comm::Communicator& ranks) {
                const auto size = static_cast<std::size_t>(ranks.size());
                return ranks.reduce_scatter(elements(in, count * size, type),
                                            elements(out, count, type), op_of(op), kDeferred);
              }});
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream,
              {[=](comm::Communicator& ranks) {
                 return ranks.send(elements(data, count, type), peer, kDeferred);
               },
               nullptr, false});
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return call(communicator, stream,
              {[=](comm::Communicator& ranks) {
                 return ranks.recv(elements(data, count, type), peer, kDeferred);
               },
               nullptr, false});
}

}  // extern "C"
