// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device: memory from cudaMalloc, asynchronous streams, times from events. And the GPUs of
// this host, found without making a context on any of them.
#include "kernels/runtime/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/math.h"
#include "kernels/runtime/cuda/cuda_calls.h"
#include "kernels/runtime/cuda/cuda_stream.h"
#include "kernels/runtime/memory_counter.h"
#include "kernels/runtime/memory_needs.h"

namespace ddpbench {
namespace cuda {
namespace {

// ---- streams, events and graphs ----

// A float of milliseconds resolves a quarter of a microsecond up to 4.2 seconds, and less beyond.
constexpr double kBaseLifetime_s = 4;
// The shortest of several readings is the one that was not disturbed.
constexpr int kCalibrationLooks = 8;

double elapsed_s(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

// Both are made on the current device.
Owned<cudaStream_t> create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return Owned<cudaStream_t>(stream);
}
Owned<cudaEvent_t> create_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return Owned<cudaEvent_t>(event);
}

bool is_recording(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

class CudaGraph final : public Recording {
 public:
  // Takes over `graph`. `stream` is any stream of the graph's device, for the upload.
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : graph_(graph) {
    cudaGraphExec_t executable = nullptr;
    // Recorded communication keeps the priority of its streams. Without the flag it would get that
    // of the stream on which the step is replayed.
    check(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority),
          "cudaGraphInstantiate");
    executable_.reset(executable);
    // Without the upload the first launch does this work, perhaps in a timed step.
    check(cudaGraphUpload(executable, stream), "cudaGraphUpload");
  }

  void replay(Stream& stream) override {
    check(cudaGraphLaunch(executable_.get(), native_stream(stream)), "cudaGraphLaunch");
  }

 private:
  Owned<cudaGraph_t> graph_;
  Owned<cudaGraphExec_t> executable_;
};

// An event that is recorded while its stream records becomes part of the recording, and every
// replay reaches it anew. It orders the work of other recordings and streams after a replay. It
// does not order work within the recording.
class CudaEvent final : public Event {
 public:
  CudaEvent(int ordinal, std::shared_ptr<CudaClock> clock) : clock_(std::move(clock)) {
    const CurrentDevice current(ordinal);
    event_ = create_event();
  }

  bool reached() const override {
    if (!recorded_) return false;  // CUDA would call it reached
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) return false;
    check(status, "cudaEventQuery");
    return true;
  }
  double time_s() const override {
    ensure(recorded_, "the time of an event that was never recorded");
    return clock_->time_s(event_.get());
  }
  void record_on(cudaStream_t stream) {
    const unsigned flags = is_recording(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(event_.get(), stream, flags), "cudaEventRecord");
    recorded_ = true;
  }
  // Later work of `stream` starts after this event.
  void order(cudaStream_t stream) const {
    ensure(recorded_, "a stream waits for an event that was never recorded");
    const unsigned flags = is_recording(stream) ? cudaEventWaitExternal : cudaEventWaitDefault;
    check(cudaStreamWaitEvent(stream, event_.get(), flags), "cudaStreamWaitEvent");
  }

 private:
  std::shared_ptr<CudaClock> clock_;
  Owned<cudaEvent_t> event_;
  bool recorded_ = false;
};

class CudaStream final : public Stream {
 public:
  CudaStream(Device& device, int ordinal) : device_(device), ordinal_(ordinal) {
    const CurrentDevice current(ordinal_);
    stream_ = create_stream();
  }

  Device& device() const noexcept override { return device_; }
  cudaStream_t native() const noexcept { return stream_.get(); }
  void record(Event& event) override { native_event<CudaEvent>(event).record_on(native()); }
  void wait(const Event& event) override { native_event<const CudaEvent>(event).order(native()); }
  void synchronize() override {
    check_with(cudaStreamSynchronize(native()), [&] { return device_.name() + " failed"; });
  }
  bool can_record() const noexcept override { return true; }
  void begin_recording() override {
    // Thread-local: other threads of the process (loader, communication) may call CUDA meanwhile.
    check(cudaStreamBeginCapture(native(), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
  }
  std::unique_ptr<Recording> end_recording() override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(native(), &graph), "the step cannot be recorded as a CUDA graph");
    const CurrentDevice current(ordinal_);
    return std::make_unique<CudaGraph>(graph, native());
  }

 private:
  template <typename Native, typename Given>
  Native& native_event(Given& event) const {
    auto* const native = dynamic_cast<Native*>(&event);
    ensure(native != nullptr, "an event of another kind of device on a stream of {}",
           device_.name());
    return *native;
  }

  Device& device_;
  int ordinal_;
  Owned<cudaStream_t> stream_;
};

// ---- the device ----

constexpr std::size_t kAlignmentBytes = 256;  // what cudaMalloc promises (CUDA C++ Guide, 5.3.2)

// The size that is allocated for a buffer of `bytes`.
std::size_t allocated_bytes(std::size_t bytes) noexcept {
  return round_up(std::max(bytes, std::size_t{1}), kAlignmentBytes);
}

// "GPU-...", as nvidia-smi and CUDA_VISIBLE_DEVICES write it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

class CudaDevice final : public NativeDevice {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options) : options_(options) {
    check(cudaSetDevice(options_.ordinal), "cudaSetDevice");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, options_.ordinal), "cudaGetDeviceProperties");
    model_ = properties.name;
    uuid_ = uuid_text(properties.uuid);
    clock_ = std::make_shared<CudaClock>(options_.ordinal);
  }

  int ordinal() const noexcept override { return options_.ordinal; }
  std::shared_ptr<CudaClock> clock() const override { return clock_; }

  DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  int index() const noexcept override { return options_.index; }
  std::string name() const override { return fmt::format("cuda:{}", options_.index); }
  std::string model() const override { return model_; }
  int thread_count() const noexcept override { return 1; }

  void bind_calling_thread() override { check(cudaSetDevice(options_.ordinal), "cudaSetDevice"); }

  Buffer allocate(std::size_t bytes, MemoryCategory category, Sharing) override {
    const CurrentDevice current(options_.ordinal);
    const std::size_t taken = allocated_bytes(bytes);
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, taken);
    if (status == cudaErrorMemoryAllocation) throw_out_of_memory(bytes, category);
    check(status, "cudaMalloc");
    std::shared_ptr<void> owner(data, [](void* at) { static_cast<void>(cudaFree(at)); });
    check(cudaMemset(data, 0, taken), "cudaMemset");
    // Streams here do not wait for the default stream.
    check(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemset");
    return {BufferView{static_cast<std::byte*>(data), bytes},
            counted_memory(counter_, category, taken, owner)};
  }
  bool is_host_accessible() const noexcept override { return false; }
  // For copies by any device of the process.
  Buffer allocate_staging(std::size_t bytes) override {
    const CurrentDevice current(options_.ordinal);
    const std::size_t taken = allocated_bytes(bytes);
    void* data = nullptr;
    check_with(cudaHostAlloc(&data, taken, cudaHostAllocPortable), [&] {
      return fmt::format("{}: cannot lock {} bytes of host memory", name(), bytes);
    });
    std::shared_ptr<void> owner(data, [](void* at) { static_cast<void>(cudaFreeHost(at)); });
    std::memset(data, 0, taken);
    return {BufferView{static_cast<std::byte*>(data), bytes}, std::move(owner)};
  }

  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CudaStream>(*this, options_.ordinal);
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CudaEvent>(options_.ordinal, clock_);
  }

  void copy(Stream& stream, BufferView dst, BufferView src) override {
    ensure(dst.bytes == src.bytes, "{}: copy of {} bytes into {}", name(), src.bytes, dst.bytes);
    if (src.bytes == 0) return;
    const CurrentDevice current(options_.ordinal);
    check_with(
        cudaMemcpyAsync(dst.data, src.data, src.bytes, cudaMemcpyDefault, native_stream(stream)),
        [&] { return fmt::format("{}: copy of {} bytes", name(), src.bytes); });
  }

  double now_s() const override { return steady_s(); }
  void calibrate_clock() override { clock_->calibrate(); }
  MemoryUsage memory() const override { return counter_->usage(); }
  void reset_memory_peaks() override { counter_->reset_peaks(); }
  std::size_t allocation_bytes(std::size_t bytes, Sharing) const noexcept override {
    return allocated_bytes(bytes);
  }

  std::optional<DriverMemory> driver_memory() const override {
    const CurrentDevice current(options_.ordinal);
    std::size_t free_bytes = 0, total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    return DriverMemory{.used_bytes = total_bytes - free_bytes, .free_bytes = free_bytes};
  }
  std::string memory_pool() const override { return uuid_; }

 private:
  [[noreturn]] void throw_out_of_memory(std::size_t bytes, MemoryCategory category) const {
    static_cast<void>(cudaGetLastError());  // the error is not sticky: the device stays usable
    std::size_t free_bytes = 0, total_bytes = 0;
    static_cast<void>(cudaMemGetInfo(&free_bytes, &total_bytes));
    throw DeviceError(fmt::format(
        "{}: cannot allocate {} bytes for {}: {} of its {} bytes are free; use a smaller batch or "
        "smaller buffers; this process holds{}",
        name(), bytes, to_string(category), free_bytes, total_bytes,
        memory_table(memory().live_bytes)));
  }

  CudaDeviceOptions options_;
  std::string model_, uuid_;
  std::shared_ptr<CudaClock> clock_;
  std::shared_ptr<MemoryCounter> counter_ = std::make_shared<MemoryCounter>();
};

// ---- the GPUs of this host ----

std::string version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The kernel knows the NUMA node that a PCI device is near to; -1 when there is only one.
int numa_node_of(const std::string& pci_bus_id) {
  std::string address = pci_bus_id;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ifstream file("/sys/bus/pci/devices/" + address + "/numa_node");
  int node = -1;
  file >> node;
  return file ? node : -1;
}

CudaDeviceInfo describe(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal),
        "cudaDeviceGetPCIBusId");
  return {.ordinal = ordinal,
          .name = properties.name,
          .uuid = uuid_text(properties.uuid),
          .pci_bus_id = bus.data(),
          .compute_capability = 10 * properties.major + properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem,
          .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize),
          .numa_node = numa_node_of(bus.data())};
}

}  // namespace

CudaClock::CudaClock(int ordinal) : ordinal_(ordinal) {
  const CurrentDevice current(ordinal_);
  stream_ = create_stream();
  base_ = create_event();
  next_ = create_event();
  calibrate();
}

void CudaClock::calibrate() {
  const CurrentDevice current(ordinal_);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  double shortest_s = std::numeric_limits<double>::infinity();
  for (int look = 0; look < kCalibrationLooks; ++look) {
    const double before_s = steady_s();
    check(cudaEventRecord(next_.get(), stream_.get()), "cudaEventRecord");
    check(cudaEventSynchronize(next_.get()), "cudaEventSynchronize");
    const double after_s = steady_s();
    if (after_s - before_s >= shortest_s) continue;
    shortest_s = after_s - before_s;
    base_s_ = before_s + shortest_s / 2;
    std::swap(base_, next_);
  }
}

void CudaClock::move_base() {
  check(cudaEventRecord(next_.get(), stream_.get()), "cudaEventRecord");
  check(cudaEventSynchronize(next_.get()), "cudaEventSynchronize");
  base_s_ += elapsed_s(base_.get(), next_.get());
  std::swap(base_, next_);
}

double CudaClock::time_s(cudaEvent_t event) {
  const CurrentDevice current(ordinal_);
  // An event from before the base lies at a negative distance from it.
  if (steady_s() - base_s_ > kBaseLifetime_s) move_base();
  return base_s_ + elapsed_s(base_.get(), event);
}

cudaStream_t native_stream(Stream& stream) {
  auto* const cuda_stream = dynamic_cast<CudaStream*>(&stream);
  ensure(cuda_stream != nullptr, "a stream of {} where a CUDA stream is needed",
         stream.device().name());
  return cuda_stream->native();
}

NativeDevice& native_device(Device& device) {
  auto* const native = dynamic_cast<NativeDevice*>(&device);
  ensure(native != nullptr, "{} is no CUDA device", device.name());
  return *native;
}

}  // namespace cuda

CudaProbe probe_cuda() {
  CudaProbe probe;
  int driver = 0, runtime = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess)
    probe.driver_version = cuda::version_text(driver);
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess)
    probe.runtime_version = cuda::version_text(runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (driver == 0) {
    probe.reason = "there is no NVIDIA driver";
  } else if (status != cudaSuccess) {
    probe.reason = fmt::format("CUDA finds no GPU: {}", cudaGetErrorString(status));
  } else if (count == 0) {
    probe.reason = "there is no GPU (or CUDA_VISIBLE_DEVICES hides it)";
  }
  if (!probe.reason.empty()) return probe;
  try {
    for (int i = 0; i < count; ++i) probe.devices.push_back(cuda::describe(i));
  } catch (const Error& error) {
    probe.devices.clear();
    probe.reason = error.what();
  }
  return probe;
}

std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options) {
  const CudaProbe probe = probe_cuda();
  if (options.ordinal < 0 || static_cast<std::size_t>(options.ordinal) >= probe.devices.size()) {
    throw UnavailableError(fmt::format(
        "there is no GPU {}: {}", options.ordinal,
        probe.reason.empty() ? fmt::format("{} are here", probe.devices.size()) : probe.reason));
  }
  return std::make_unique<cuda::CudaDevice>(options);
}

}  // namespace ddpbench
