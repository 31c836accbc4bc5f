// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_pieces.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/random.h"
#include "parallel/comm/mpi/mpi_session.h"

namespace ddpbench::comm {

namespace {

// More than what Open MPI puts in front of a message.
constexpr std::uint64_t kHeaderBytes = 256;

// The index of a control variable of MPI; -1: there is none. Those of a component of Open MPI that
// is not in use do not exist.
int variable(const char* name) {
  int index = -1;
  return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS ? index : -1;
}

// 0: it cannot be read.
std::uint64_t read_variable(int index) {
  MPI_T_cvar_handle handle = nullptr;
  int count = 0;
  std::uint64_t value = 0;  // a size_t, which is as large
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return 0;
  if (count != 1 || MPI_T_cvar_read(handle, &value) != MPI_SUCCESS) value = 0;
  MPI_T_cvar_handle_free(&handle);
  return value;
}

// The most bytes of a message that MPI sends to another host without asking first; kWholePiece: not
// known, or no matter. Networks beside Ethernet have transports of their own, which move a large
// message best.
std::uint64_t eager_bytes() {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return kWholePiece;
  constexpr const char* kOthers[] = {"btl_openib_eager_limit", "btl_ofi_eager_limit",
                                     "btl_usnic_eager_limit", "btl_uct_eager_limit"};
  const bool others =
      std::ranges::any_of(kOthers, [](const char* name) { return variable(name) >= 0; });
  const int limit = variable("btl_tcp_eager_limit");
  const bool is_tcp = variable("pml_ob1_priority") >= 0 && limit >= 0 && !others;
  const std::uint64_t bytes = is_tcp ? read_variable(limit) : 0;
  MPI_T_finalize();
  return bytes > 2 * kHeaderBytes ? bytes - kHeaderBytes : kWholePiece;
}

struct Place {
  std::uint64_t host, eager;
};

// Those of all ranks, in their order.
std::vector<Place> gather_places(MPI_Comm among, int size, const Place& own) {
  std::vector<Place> places(static_cast<std::size_t>(size));
  check_mpi(
      MPI_Allgather(&own, sizeof(Place), MPI_BYTE, places.data(), sizeof(Place), MPI_BYTE, among),
      "MPI_Allgather");
  return places;
}

}  // namespace

MpiPlaces find_places(MPI_Comm among, int size, const std::string& host, const Patience& patience) {
  MpiPlaces found{std::vector<std::size_t>(static_cast<std::size_t>(size), kWholePiece), size};
  if (host.empty()) return found;
  const Place own{hash_bytes(host.data(), host.size(), 0), eager_bytes()};
  const auto places = std::make_shared<std::vector<Place>>();  // the thread may outlive this call
  run_aside([=] { *places = gather_places(among, size, own); }, patience, "MPI_Allgather",
            "the ranks told each other where they are: one of them did not");
  const std::uint64_t eager = std::ranges::min(*places, {}, &Place::eager).eager;
  for (std::size_t rank = 0; rank < found.pieces.size(); ++rank) {
    if ((*places)[rank].host != own.host) found.pieces[rank] = eager;
  }
  found.ranks_here = static_cast<int>(std::ranges::count(*places, own.host, &Place::host));
  return found;
}

}  // namespace ddpbench::comm
