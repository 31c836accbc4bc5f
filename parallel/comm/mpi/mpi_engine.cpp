// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_engine.h"

#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <string>

#include "base/error.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::comm {

namespace {

std::atomic<bool> any_has_failed = false;

MPI_Datatype type_of(DataType type) {
  switch (type) {
    case DataType::fp32:
      return MPI_FLOAT;
    case DataType::fp64:
      return MPI_DOUBLE;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::uint8:
      return MPI_UINT8_T;
    case DataType::bf16:
    case DataType::fp16:
      return MPI_UINT16_T;
  }
  throw InternalError("an unknown type of data");
}

// MPI 3.1 knows no 16-bit floating-point numbers.
template <DataType type, ReduceOp op>
MPI_Op own_op() {
  static const MPI_Op made = [] {
    MPI_Op one = MPI_OP_NULL;
    const auto reduce = [](void* in, void* inout, int* count, MPI_Datatype*) {
      const std::array sources = {static_cast<const std::byte*>(inout),
                                  static_cast<const std::byte*>(in)};
      reduce_sources(inout, sources, static_cast<std::size_t>(*count), {type, op});
    };
    check_mpi(MPI_Op_create(reduce, 1, &one), "MPI_Op_create");
    return one;
  }();
  return made;
}

MPI_Op op_of(DataType type, ReduceOp op) {
  const bool sums = op == ReduceOp::sum;
  if (type == DataType::bf16) {
    return sums ? own_op<DataType::bf16, ReduceOp::sum>()
                : own_op<DataType::bf16, ReduceOp::maximum>();
  }
  if (type == DataType::fp16) {
    return sums ? own_op<DataType::fp16, ReduceOp::sum>()
                : own_op<DataType::fp16, ReduceOp::maximum>();
  }
  return sums ? MPI_SUM : MPI_MAX;
}

int count_of(const Elements& elements) {
  if (elements.count > INT_MAX) {
    throw CommError(
        fmt::format("{} elements are more than one call of MPI 3.1 takes", elements.count));
  }
  return static_cast<int>(elements.count);
}

std::byte* place_in(const Elements& whole, int rank, const Elements& part) {
  return static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(rank) * part.bytes();
}

bool is_done(MPI_Request& request) {
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CommError(fmt::format("{}: {}", call, std::string(text.data())));
}

class MpiEngine::Moving final : public Transfer {
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

MpiEngine::MpiEngine(MPI_Comm parent, const std::vector<int>& members, int rank)
    : LibraryEngine(rank, static_cast<int>(members.size())) {
  MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(parent, &all);
  MPI_Group_incl(all, size(), members.data(), &group);
  check_mpi(MPI_Comm_create_group(parent, group, 0, &comm_), "MPI_Comm_create_group");
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

// MPI's call blocks, so the exchange comes first: a rank that does not come has a deadline there.
std::unique_ptr<LibraryEngine> MpiEngine::split(const SplitPart& part,
                                                const TextExchange& exchange) {
  exchange("");
  return std::make_unique<MpiEngine>(comm_, part.members, part.rank);
}

bool MpiEngine::has_any_failed() noexcept { return any_has_failed.load(); }

void MpiEngine::note_failure() noexcept { any_has_failed.store(true); }

// ---- collectives ----

void MpiEngine::run(const Operation& operation, Deadline deadline, Waiter waiter) {
  MPI_Request request = MPI_REQUEST_NULL;
  switch (operation.kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce:
    case OperationKind::reduce_scatter:
      begin_reduction(operation, request);
      break;
    default:
      begin_move(operation, request);
  }
  Pause pause(waiter);
  while (!is_done(request)) {
    throw_if_aborted(&operation);
    if (has_passed(deadline)) throw CommTimeout("deadline passed");
    pause.take();
  }
  if (operation.kind != OperationKind::reduce_scatter) return;
  if (operation.out.data == operation.in.data) return;
  std::memcpy(operation.out.data, operation.in.data, operation.out.bytes());
}

// In place, so a reduced part is at the beginning of the whole.
void MpiEngine::begin_reduction(const Operation& o, MPI_Request& request) const {
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
void MpiEngine::begin_move(const Operation& o, MPI_Request& request) const {
  const Elements &in = o.in, &out = o.out, part = o.part();
  const MPI_Datatype type = type_of(part.type);
  const int count = count_of(part);
  const bool is_root = rank() == o.root;
  switch (o.kind) {
    case OperationKind::broadcast:
      return check_mpi(MPI_Ibcast(in.data, count, type, o.root, comm_, &request), "MPI_Ibcast");
    case OperationKind::all_gather: {
      const bool in_place = place_in(out, rank(), part) == in.data;
      return check_mpi(MPI_Iallgather(in_place ? MPI_IN_PLACE : in.data, count, type, out.data,
                                      count, type, comm_, &request),
                       "MPI_Iallgather");
    }
    case OperationKind::gather: {
      const bool in_place = is_root && place_in(out, rank(), part) == in.data;
      return check_mpi(
          MPI_Igather(in_place ? MPI_IN_PLACE : in.data, count, type, is_root ? out.data : nullptr,
                      count, type, o.root, comm_, &request),
          "MPI_Igather");
    }
    case OperationKind::scatter: {
      const bool in_place = is_root && place_in(in, rank(), part) == out.data;
      return check_mpi(
          MPI_Iscatter(is_root ? in.data : nullptr, count, type, in_place ? MPI_IN_PLACE : out.data,
                       count, type, o.root, comm_, &request),
          "MPI_Iscatter");
    }
    case OperationKind::barrier:
      return check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
    default:
      throw InternalError("no collective of MPI: " + describe(o));
  }
}

// MPI matches messages of one tag between two ranks in the order in which they are sent.
std::unique_ptr<LibraryEngine::Transfer> MpiEngine::start(const Operation& o) {
  const bool is_send = o.kind == OperationKind::send;
  const Elements part = o.part();
  auto moving = std::make_unique<Moving>(is_send);
  const int count = count_of(part);
  if (is_send) {
    check_mpi(MPI_Isend(part.data, count, type_of(part.type), o.root, 0, comm_, &moving->request),
              "MPI_Isend");
  } else {
    check_mpi(MPI_Irecv(part.data, count, type_of(part.type), o.root, 0, comm_, &moving->request),
              "MPI_Irecv");
  }
  return moving;
}

}  // namespace ddpbench::comm
