// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that processes share through a handle or an inherited descriptor, and the errors of both
// ways.
#include "kernels/runtime/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench {
namespace {

using testing::HasSubstr;

// Runs `body` in a forked child. Returns true when it returned true there.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (...) {  // gtest's handlers belong to the parent
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

TEST(SharedMemory, ShowsAnotherProcessWhatIsWrittenAfterItWasMapped) {
  const SharedMemory memory = SharedMemory::create("ddpbench-test", 10'000);
  const std::string handle = memory.handle();
  const bool good = in_child([&] {
    const SharedMemory peer = SharedMemory::open(handle);
    peer.view().data[9'999] = std::byte{7};
    return peer.view().bytes == 10'000 && peer.fd() == -1 && peer.view().data != memory.view().data;
  });
  EXPECT_TRUE(good);
  EXPECT_EQ(memory.view().data[9'999], std::byte{7});
}

TEST(SharedMemory, OfADeviceIsReachedThroughItsHandle) {
  const auto device = make_cpu_device({});
  const Buffer buffer = device->allocate(3 << 20, MemoryCategory::gradients, Sharing::mappable);
  const bool good = in_child([&] {
    const SharedMemory peer = SharedMemory::open(buffer.export_handle());
    peer.view().data[(3 << 20) - 1] = std::byte{9};
    return reinterpret_cast<std::uintptr_t>(peer.view().data) % (2 << 20) == 0;
  });
  EXPECT_TRUE(good);
  EXPECT_EQ(buffer.data()[(3 << 20) - 1], std::byte{9});
}

TEST(SharedMemory, IsAdoptedFromAnInheritedDescriptor) {
  const SharedMemory memory = SharedMemory::create("ddpbench-test", 4'097);
  SharedMemory adopted = SharedMemory::adopt(::dup(memory.fd()));
  EXPECT_EQ(adopted.view().bytes, 4'097U);
  adopted.view().data[4'096] = std::byte{5};
  EXPECT_EQ(memory.view().data[4'096], std::byte{5});
}

TEST(SharedMemory, MovesWithoutMappingAnything) {
  SharedMemory first = SharedMemory::create("ddpbench-test", 64);
  const std::byte* const data = first.view().data;
  SharedMemory second = std::move(first);
  EXPECT_EQ(second.view().data, data);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): empty is what moved-from promises
  first = std::move(second);
  EXPECT_EQ(first.view().data, data);
}

TEST(SharedMemory, LeavesNoDescriptorBehind) {
  const std::size_t before = open_descriptors();
  {
    const SharedMemory memory = SharedMemory::create("ddpbench-test", 64);
    const SharedMemory peer = SharedMemory::open(memory.handle());
    const SharedMemory adopted = SharedMemory::adopt(::dup(memory.fd()));
    EXPECT_THROW(SharedMemory::open("memfd:1:2"), CommError);
    EXPECT_THROW(SharedMemory::adopt(::open("/dev/null", O_RDONLY)), DeviceError);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SharedMemory, CannotBeShrunkUnderItsPeers) {
  const SharedMemory memory = SharedMemory::create("ddpbench-test", 8'192);
  EXPECT_NE(::ftruncate(memory.fd(), 0), 0);
}

TEST(SharedMemory, ThatIsSealedCannotBeWrittenByAnyProcess) {
  SharedMemory memory = SharedMemory::create("test", 4096, true);
  memory.view().data[7] = std::byte{42};
  memory.seal();
  EXPECT_EQ(memory.view().data[7], std::byte{42});
  const SharedMemory peer = SharedMemory::open(memory.handle());
  const SharedMemory child = SharedMemory::adopt(::dup(memory.fd()));
  for (const SharedMemory* mapped :
       std::initializer_list<const SharedMemory*>{&memory, &peer, &child}) {
    EXPECT_EQ(mapped->view().data[7], std::byte{42});
    const auto write = [&] {
      std::signal(SIGSEGV, SIG_DFL);  // sanitizers handle it
      mapped->view().data[7] = std::byte{1};
    };
    EXPECT_EXIT(write(), testing::KilledBySignal(SIGSEGV), "");
  }
  EXPECT_LT(::pwrite(memory.fd(), "x", 1, 0), 0);
}

TEST(SharedMemory, ThatMustBeSealedIsRefusedWhileItCanBeWritten) {
  SharedMemory memory = SharedMemory::create("unsealed", 4096, true);
  EXPECT_TRUE(SharedMemory::open(memory.handle()));
  EXPECT_THAT([&] { SharedMemory::open(memory.handle(), SharedMemory::Use::share_sealed); },
              testing::ThrowsMessage<CommError>(HasSubstr("it could be changed while it is read")));
  memory.seal();
  EXPECT_TRUE(SharedMemory::open(memory.handle(), SharedMemory::Use::share_sealed));
}

TEST(SharedMemory, RefusesMemoryThatItsOwnerCouldShrink) {
  const FileDescriptor loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 64), 0);
  EXPECT_THAT([&] { SharedMemory::open(fmt::format("memfd:{}:{}:64", ::getpid(), loose.get())); },
              testing::ThrowsMessage<CommError>(testing::HasSubstr("could shrink it")));
}

TEST(SharedMemory, RefusesMemoryOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, who may open what belongs to others";
  const FileDescriptor foreign(::memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(foreign.get(), 64), 0);
  ASSERT_EQ(::fcntl(foreign.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  ASSERT_EQ(::fchown(foreign.get(), 65534, 65534), 0);
  EXPECT_THAT([&] { SharedMemory::open(fmt::format("memfd:{}:{}:64", ::getpid(), foreign.get())); },
              testing::ThrowsMessage<CommError>(testing::HasSubstr("belongs to user 65534")));
}

TEST(SharedMemory, RefusesMalformedHandlesAndQuotesThem) {
  for (const char* const handle : {"", "memfd:", "memfd:1:2:", "memfd:1:2:3x", "shm:1:2:3",
                                   "memfd:-1:2:3", "memfd:1:2:0", "memfd:1::3"}) {
    EXPECT_THAT(message_of([&] { SharedMemory::open(handle); }),
                HasSubstr(fmt::format("'{}' is no shared memory handle", handle)));
  }
}

TEST(SharedMemory, SaysWhenTheOwnerIsGone) {
  std::string handle;
  {
    const SharedMemory memory = SharedMemory::create("ddpbench-test", 64);
    handle = memory.handle();
  }
  EXPECT_THAT(message_of([&] { SharedMemory::open(handle); }), HasSubstr("cannot open"));
}

TEST(SharedMemory, RefusesWhatIsNotTheAnnouncedMemory) {
  const SharedMemory memory = SharedMemory::create("ddpbench-test", 64);
  const std::string larger = fmt::format("memfd:{}:{}:{}", ::getpid(), memory.fd(), 128);
  EXPECT_THAT(message_of([&] { SharedMemory::open(larger); }), HasSubstr("PID namespace"));
  const int other = ::open("/proc/self/exe", O_RDONLY);
  const std::string file = fmt::format("memfd:{}:{}:{}", ::getpid(), other, 64);
  EXPECT_THROW(SharedMemory::open(file), CommError);
  ::close(other);
}

TEST(SharedMemory, HasAHandleOnlyWhereItIsOwned) {
  const SharedMemory memory = SharedMemory::create("ddpbench-test", 64);
  EXPECT_THROW(SharedMemory::open(memory.handle()).handle(), InternalError);
}

}  // namespace
}  // namespace ddpbench
