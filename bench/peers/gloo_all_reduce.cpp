// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times Gloo's in-place all-reduce of floats (sum) between processes of this host. A call takes as
// long as its slowest rank. Rank 0 prints "bytes median_us min_us", over the calls.
//   g++ -O2 gloo_all_reduce.cpp -lgloo -o gloo_all_reduce && ./gloo_all_reduce 2 421642 200
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

template <typename T>
void all_reduce(const std::shared_ptr<gloo::Context>& context, std::vector<T>& data,
                void (*combine)(void*, const void*, const void*, std::size_t)) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data.data(), data.size());
  options.setReduceFunction(combine);
  gloo::allreduce(options);
}

void run(int rank, int size, int count, int calls, const std::string& folder) {
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  std::vector<float> data(static_cast<std::size_t>(count));
  std::vector<double> times;
  const int warm_up = 10;
  for (int i = -warm_up; i < calls; ++i) {
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    const auto begin = std::chrono::steady_clock::now();
    all_reduce(context, data, &gloo::sum<float>);
    const std::chrono::duration<double> own = std::chrono::steady_clock::now() - begin;
    if (i >= 0) times.push_back(own.count());
  }
  all_reduce(context, times, &gloo::max<double>);
  if (rank > 0) return;
  std::sort(times.begin(), times.end());
  std::printf("%zu %.2f %.2f\n", data.size() * sizeof(float), times[times.size() / 2] * 1e6,
              times[0] * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const int count = argc > 2 ? std::atoi(argv[2]) : 421642;
  const int calls = argc > 3 ? std::atoi(argv[3]) : 200;
  char folder[] = "/tmp/gloo_all_reduce-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  for (int rank = 1; rank < size; ++rank) {
    if (::fork() == 0) {
      run(rank, size, count, calls, folder);
      return 0;
    }
  }
  run(0, size, count, calls, folder);
  while (::wait(nullptr) > 0) {
  }
  return std::system(("rm -r " + std::string(folder)).c_str());
}
