// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ddpbench {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::byte* as_bytes(void* address) {
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

// Reserves address space for `length` bytes that starts at a multiple of kHugePageBytes.
std::byte* reserve_aligned(std::size_t length) {
  const std::size_t reserved = length + kHugePageBytes;
  std::byte* const start = as_bytes(
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (!start) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::size_t head = round_up(address, kHugePageBytes) - address;
  if (head > 0) ::munmap(start, head);
  if (const std::size_t tail = reserved - head - length) ::munmap(start + head + length, tail);
  return start + head;
}

// What is mapped for `bytes`: pages, and where half a huge page or more is left, a huge one.
std::size_t mapped_bytes(std::size_t bytes) {
  const std::size_t rest = bytes % kHugePageBytes;
  return round_up(bytes, rest >= kHugePageBytes / 2 ? kHugePageBytes : page_bytes());
}

struct Handle {
  long pid = 0;
  int fd = 0;
  std::size_t bytes = 0;
};

std::optional<Handle> parse_handle(const std::string& text) {
  Handle handle;
  int end = 0;
  const int found =
      std::sscanf(text.c_str(), "memfd:%ld:%d:%zu%n", &handle.pid, &handle.fd, &handle.bytes, &end);
  const bool complete = found == 3 && static_cast<std::size_t>(end) == text.size() &&
                        handle.pid >= 0 && handle.fd >= 0 && handle.bytes > 0;
  return complete ? std::optional(handle) : std::nullopt;
}

// A peer that shrinks a file which others map raises SIGBUS in them.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// In another PID namespace the number may be that of another process. So the file must at least be
// anonymous shared memory of the announced size.
bool is_announced_memory(const std::string& path, const struct stat& info, std::size_t bytes) {
  std::array<char, 64> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 &&
         std::string_view(target.data(), static_cast<std::size_t>(length)).starts_with("/memfd:") &&
         static_cast<std::size_t>(info.st_size) == bytes;
}

// Why memory that a stranger may have made must not be mapped; empty: it may.
std::string reason_to_refuse(const struct stat& info, int seals, bool must_be_sealed) {
  if (info.st_uid != ::geteuid()) {
    return fmt::format("it belongs to user {}, this process to user {}", info.st_uid, ::geteuid());
  }
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) return "its owner could shrink it";
  if (must_be_sealed && !(seals & F_SEAL_WRITE)) return "it could be changed while it is read";
  return "";
}

// Maps the file, read-only where it is sealed against writing or the descriptor cannot write. A
// mapping of sealed memory needs such a descriptor. Throws an Error "cannot map <what>: ...".
template <typename Error>
BufferView map_shared(std::size_t bytes, int fd, const std::string& what) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const bool sealed = seals >= 0 && (seals & F_SEAL_WRITE) != 0;
  const FileDescriptor reader(
      sealed ? ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC) : -1);
  const int used = sealed ? reader.get() : fd;
  const bool writable = used >= 0 && (::fcntl(used, F_GETFL) & O_ACCMODE) == O_RDWR;
  const BufferView view = used < 0 ? BufferView{} : map_memory(bytes, used, writable);
  if (!view.data) throw_system_error<Error>("cannot map " + what, errno);
  return view;
}

}  // namespace

SharedMemory SharedMemory::create(const std::string& name, std::size_t bytes,
                                  bool is_sealed_later) {
  ensure(bytes > 0, "shared memory {} of 0 bytes", name);
  FileDescriptor fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | (is_sealed_later ? 0 : F_SEAL_SEAL)) != 0) {
    throw_system_error<DeviceError>(
        fmt::format("cannot create {} bytes of shared memory '{}'", bytes, name), errno);
  }
  const BufferView view = map_shared<DeviceError>(
      bytes, fd.get(), fmt::format("{} bytes of shared memory '{}'", bytes, name));
  return SharedMemory(view, std::move(fd));
}

SharedMemory SharedMemory::open(const std::string& handle, Use use) {
  const std::optional<Handle> parsed = parse_handle(handle);
  if (!parsed) {
    throw CommError(
        fmt::format("'{}' is no shared memory handle; expected memfd:<pid>:<fd>:<bytes>", handle));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", parsed->pid, parsed->fd);
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.get() < 0) {
    throw CommError(
        fmt::format("cannot open shared memory {} through {}: {}; its process must live "
                    "on this host, in this PID namespace and under this user",
                    handle, path, std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !is_announced_memory(path, info, parsed->bytes)) {
    throw CommError(
        fmt::format("{} is not the shared memory that {} announces; ranks must share one "
                    "PID namespace",
                    path, handle));
  }
  const std::string refused =
      reason_to_refuse(info, ::fcntl(fd.get(), F_GET_SEALS), use == Use::share_sealed);
  if (!refused.empty()) {
    throw CommError(fmt::format("the shared memory {} is not used: {}", handle, refused));
  }
  const BufferView view = map_shared<CommError>(parsed->bytes, fd.get(), "shared memory " + handle);
  return SharedMemory(view, use == Use::map ? FileDescriptor() : std::move(fd));
}

SharedMemory SharedMemory::adopt(int fd) {
  FileDescriptor owned(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size <= 0) {
    throw DeviceError(fmt::format("descriptor {} is no shared memory: {}", fd,
                                  info.st_size <= 0 ? "it is empty" : std::strerror(errno)));
  }
  const BufferView view =
      map_shared<DeviceError>(static_cast<std::size_t>(info.st_size), fd,
                              fmt::format("descriptor {} ({} bytes)", fd, info.st_size));
  return SharedMemory(view, std::move(owned));
}

void SharedMemory::seal() {
  const std::size_t bytes = view_.bytes;
  unmap_memory(std::exchange(view_, {}));  // a writable mapping would prevent the seal
  // Some kernels before 5.17 find huge pages busy for ever. The memory then stays writable.
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SEAL);
  }
  view_ = map_shared<DeviceError>(bytes, fd_.get(),
                                  fmt::format("{} bytes of shared memory again", bytes));
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : view_(std::exchange(other.view_, {})), fd_(std::move(other.fd_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(view_, other.view_);
  std::swap(fd_, other.fd_);
  return *this;
}

SharedMemory::~SharedMemory() { unmap_memory(view_); }

BufferView map_memory(std::size_t bytes, int fd, bool writable) {
  const std::size_t length = mapped_bytes(bytes);
  if (length < bytes) {  // wrapped around
    errno = ENOMEM;
    return {};
  }
  const bool huge = length >= kHugePageBytes;
  std::byte* const place = huge ? reserve_aligned(length) : nullptr;
  if (huge && place == nullptr) return {};
  const int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | (huge ? MAP_FIXED : 0);
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  std::byte* const data = as_bytes(::mmap(place, length, access, flags, fd, 0));
  if (!data) {
    const int reason = errno;
    if (place) ::munmap(place, length);
    errno = reason;
    return {};
  }
  if (huge) ::madvise(data, length, MADV_HUGEPAGE);  // only advice: a refusal does no harm
  return {data, bytes};
}

void unmap_memory(BufferView view) noexcept {
  if (view.data) ::munmap(view.data, mapped_bytes(view.bytes));
}

bool populate_memory(BufferView view) {
  const std::size_t page = page_bytes();
#ifdef MADV_POPULATE_WRITE
  if (::madvise(view.data, round_up(view.bytes, page), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  // Linux before 5.14: a write to every page does the same, but too little memory then raises a
  // signal.
  for (std::size_t at = 0; at < view.bytes; at += page) {
    volatile std::byte* const touched = view.data + at;
    *touched = *touched;
  }
  return true;
}

std::string SharedMemory::handle() const {
  ensure(static_cast<bool>(fd_),
         "shared memory that was opened from a handle has no handle of its own");
  return fmt::format("memfd:{}:{}:{}", ::getpid(), fd_.get(), view_.bytes);
}

}  // namespace ddpbench
