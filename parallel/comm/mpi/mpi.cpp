// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MpiEngine: one rank's calls by the non-blocking collectives and messages of MPI 3.1. MPI
// progresses only while it is called, so a rank that waits asks again and again.
#include <mpi.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/comm/library/library_engine.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::comm {

namespace {

// Throws CommError with MPI's words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CommError(fmt::format("{}: {}", call, std::string(text.data())));
}

// After a failure MPI_Finalize would wait for who did not come.
std::atomic<bool> any_has_failed = false;

// By the enumerators' numbers.
MPI_Datatype type_of(DataType type) {
  const std::array types = {MPI_FLOAT,   MPI_DOUBLE,  MPI_UINT16_T, MPI_UINT16_T,
                            MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T};
  return types.at(static_cast<std::size_t>(type));
}

// MPI 3.1 knows no 16-bit floating-point numbers.
template <DataType type, ReduceOp op>
MPI_Op own_op() {
  static const MPI_Op made = [] {
    MPI_Op one = MPI_OP_NULL;
    const auto reduce = [](void* in, void* into, int* count, MPI_Datatype*) {
      const std::array sources = {static_cast<const std::byte*>(into),
                                  static_cast<const std::byte*>(in)};
      reduce_sources(into, sources, static_cast<std::size_t>(*count), {type, op});
    };
    check_mpi(MPI_Op_create(reduce, 1, &one), "MPI_Op_create");
    return one;
  }();
  return made;
}

template <ReduceOp op>
MPI_Op op_of(DataType type, MPI_Op of_mpi) {
  return type == DataType::bf16   ? own_op<DataType::bf16, op>()
         : type == DataType::fp16 ? own_op<DataType::fp16, op>()
                                  : of_mpi;
}

MPI_Op op_of(DataType type, ReduceOp op) {
  return op == ReduceOp::sum ? op_of<ReduceOp::sum>(type, MPI_SUM)
                             : op_of<ReduceOp::maximum>(type, MPI_MAX);
}

int count_of(const Elements& elements) {
  if (elements.count > INT_MAX) {
    throw CommError(
        fmt::format("{} elements are more than one call of MPI 3.1 takes", elements.count));
  }
  return static_cast<int>(elements.count);
}

bool is_done(MPI_Request& request) {
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

class MpiEngine final : public LibraryEngine {
 public:
  // Collective over `members`, ranks of MPI_COMM_WORLD, which all have come. `rank`: this one's
  // place.
  MpiEngine(const std::vector<int>& members, int rank)
      : LibraryEngine(rank, static_cast<int>(members.size())) {
    MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, size(), members.data(), &group);
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm_), "MPI_Comm_create_group");
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

 private:
  // A message.
  class Moving final : public Transfer {
   public:
    explicit Moving(bool is_send) : is_send_(is_send) {}
    ~Moving() override {
      if (request == MPI_REQUEST_NULL) return;
      if (!is_send_) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    bool test() override { return is_done(request); }

    MPI_Request request = MPI_REQUEST_NULL;

   private:
    const bool is_send_;
  };

  void run(const Operation& operation, Deadline deadline, Waiter waiter) override {
    MPI_Request request = MPI_REQUEST_NULL;
    begin(operation, request);
    Pause pause(waiter);
    while (!is_done(request)) {
      throw_if_aborted(&operation);
      if (has_passed(deadline)) throw CommTimeout("deadline passed");
      pause.take();
    }
    if (operation.kind != OperationKind::reduce_scatter) return;
    if (operation.out.data == operation.in.data || operation.out.bytes() == 0) return;
    std::memcpy(operation.out.data, operation.in.data, operation.out.bytes());
  }

  // MPI matches messages of one tag between two ranks in the order in which they are sent.
  std::unique_ptr<Transfer> start(const Operation& o) override {
    const bool is_send = o.kind == OperationKind::send;
    const Elements part = o.part();
    auto moving = std::make_unique<Moving>(is_send);
    const auto call = [&](auto* of_mpi) {
      return of_mpi(part.data, count_of(part), type_of(part.type), o.root, 0, comm_,
                    &moving->request);
    };
    check_mpi(is_send ? call(&MPI_Isend) : call(&MPI_Irecv), is_send ? "MPI_Isend" : "MPI_Irecv");
    return moving;
  }

  void give_up(const std::string&) noexcept override { any_has_failed = true; }

  // In place, so a reduced part is at the beginning of the whole.
  void begin_reduction(const Operation& o, MPI_Request& request) const {
    const MPI_Datatype type = type_of(o.in.type);
    const MPI_Op op = op_of(o.in.type, o.op);
    const int count = count_of(o.part());
    if (o.kind == OperationKind::all_reduce) {
      return check_mpi(MPI_Iallreduce(MPI_IN_PLACE, o.in.data, count, type, op, comm_, &request),
                       "MPI_Iallreduce");
    }
    if (o.kind == OperationKind::reduce_scatter) {
      return check_mpi(
          MPI_Ireduce_scatter_block(MPI_IN_PLACE, o.in.data, count, type, op, comm_, &request),
          "MPI_Ireduce_scatter_block");
    }
    const bool is_root = rank() == o.root;
    check_mpi(MPI_Ireduce(is_root ? MPI_IN_PLACE : o.in.data, is_root ? o.in.data : nullptr, count,
                          type, op, o.root, comm_, &request),
              "MPI_Ireduce");
  }

  // A rank's own part of a whole may be in place already.
  void begin(const Operation& o, MPI_Request& request) const {
    const Elements &in = o.in, &out = o.out, part = o.part();
    const MPI_Datatype type = type_of(part.type);
    const int count = count_of(part);
    const bool is_root = rank() == o.root;
    switch (o.kind) {
      case OperationKind::broadcast:
        return check_mpi(MPI_Ibcast(in.data, count, type, o.root, comm_, &request), "MPI_Ibcast");
      case OperationKind::all_gather: {
        const bool in_place = out.place_of(rank(), part) == in.data;
        return check_mpi(MPI_Iallgather(in_place ? MPI_IN_PLACE : in.data, count, type, out.data,
                                        count, type, comm_, &request),
                         "MPI_Iallgather");
      }
      case OperationKind::gather: {
        const bool in_place = is_root && out.place_of(rank(), part) == in.data;
        return check_mpi(
            MPI_Igather(in_place ? MPI_IN_PLACE : in.data, count, type,
                        is_root ? out.data : nullptr, count, type, o.root, comm_, &request),
            "MPI_Igather");
      }
      case OperationKind::scatter: {
        const bool in_place = is_root && in.place_of(rank(), part) == out.data;
        return check_mpi(
            MPI_Iscatter(is_root ? in.data : nullptr, count, type,
                         in_place ? MPI_IN_PLACE : out.data, count, type, o.root, comm_, &request),
            "MPI_Iscatter");
      }
      case OperationKind::barrier:
        return check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
      default:
        return begin_reduction(o, request);
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;  // freeing it waits for all ranks in some MPIs: it ends with MPI
};

// Gives the level of threads. MPI waits for all ranks that mpirun has started, and must not be
// asked twice in a process, whatever came of the first time.
int initialize(double timeout_s) {
  static std::atomic<bool> asked = false;
  if (asked.exchange(true)) throw UnavailableError("MPI failed to start in this process before");
  const auto level = call_before(deadline_after(timeout_s), [] {
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
      throw UnavailableError("MPI_Init_thread failed; ranks of MPI are started by mpirun");
    }
    return provided;
  });
  if (level) return *level;
  throw CommTimeout(
      "MPI_Init_thread: deadline passed while MPI waited for the ranks that mpirun has started",
      "MPI_Init_thread");
}

// MPI is finalized when the process ends, unless an engine has failed. Another thread than the one
// that initialised MPI finalizes it. MPI 3.1 advises against that; Open MPI 4.1 and 5.0 allow it.
class Session {
 public:
  // The first call waits until MPI is initialised.
  static const Session& get(const WorldOptions& options) {
    static const Session session(options);
    return session;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const noexcept { return rank_; }  // in MPI_COMM_WORLD
  int size() const noexcept { return size_; }

 private:
  explicit Session(const WorldOptions& options) {
    if (initialize(options.timeout_s) != MPI_THREAD_MULTIPLE) {
      throw UnavailableError(
          "this MPI does not let several threads call it (MPI_THREAD_MULTIPLE), which the "
          "communication thread needs");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Session() {
    if (!any_has_failed) MPI_Finalize();
  }

  int rank_ = 0, size_ = 1;
};

class MpiModule final : public CommModule {
 public:
  std::string version() const override {
#ifdef OMPI_MAJOR_VERSION
    return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                       OMPI_RELEASE_VERSION);
#else
    return fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
  }
  std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                     const WorldOptions& options) const override {
    const Session& mpi = Session::get(options);
    std::vector<int> members = options.members;
    for (int i = 0; options.members.empty() && i < size; ++i) members.push_back(i);
    const int own = members.at(static_cast<std::size_t>(rank));
    if (mpi.rank() != own || mpi.size() < size) {
      throw UnavailableError(fmt::format(
          "MPI knows this process as rank {} of {}, which is to be rank {} of {}: start the ranks "
          "with the mpirun of {}",
          mpi.rank(), mpi.size(), own, size, version()));
    }
    try {
      // MPI's call blocks: who does not come has a deadline in the exchange.
      exchange_in(store, rank, size, options, "");
      return std::make_unique<QueuedCommunicator>(
          "mpi", rank, size, std::make_unique<MpiEngine>(members, rank), options);
    } catch (...) {
      any_has_failed = true;
      throw;
    }
  }
  void share_pauses(DeadlineClock::Pauses& pauses) const override { DeadlineClock::share(pauses); }
};

}  // namespace

const CommModule& engine_module() {
  static const MpiModule module;
  return module;
}

}  // namespace ddpbench::comm
